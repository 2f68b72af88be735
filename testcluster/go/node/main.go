// Command node has the programs of a real Kubernetes node in one file: kubelet and kube-proxy.
//
// Its first argument picks the program; the others are that program's own.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// Constructing a command installs the process's signal handler, which may happen only once.
var programs = map[string]func() int{
	"kubelet":    func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kube-proxy": func() int { return cli.Run(proxy.NewProxyCommand()) },
}

func main() {
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: node kubelet|kube-proxy [ARGUMENT ...]")
		os.Exit(2)
	}
	// The program reads its arguments as if it had been started under its own name.
	os.Args = os.Args[1:]
	os.Exit(programs[os.Args[0]]())
}
