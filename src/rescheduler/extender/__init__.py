"""What kube-scheduler and the API server ask us.

Here are the answers to both: the extender, which says where a pod may run and where it had better,
and the webhook, which tells a replacement where its migration would like it. All is answered from
memory; nothing here decides what to move or moves it, and no pod ever waits for us: whatever we do
not answer in time goes on without us.
"""
