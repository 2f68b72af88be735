module kube-rescheduler/testcluster/traffic

go 1.26.0
