// Command testcluster is a Kubernetes control plane in one program, to test against.
//
// Its first argument picks the component; the others are that component's own. One program
// instead of many shares most of its code, so it is built and stored once. Built with the tag
// `servers`, it has only etcd and the servers of Kubernetes: that is enough of an older version,
// which the tools of the current one run against (see tools.go).
//
// With --with-owner before the component, the process ends as soon as its standard input does.
// Whoever starts it holds the other end of that pipe, so that however the owner ends, even killed
// outright, nothing is left running.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	_ "time/tzdata" // CronJobs may name a time zone, and the machine may have no database of them.

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// Each entry constructs its command only when it is run: every one of them installs the
// process's signal handler, and installing it twice panics.
var components = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
	"kube-controller-manager": func() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) },
	"kube-scheduler":          func() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) },
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--with-owner" {
		go exitWithOwner()
		os.Args = os.Args[1:]
	}
	if len(os.Args) < 2 || components[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: testcluster [--with-owner] COMPONENT [ARGUMENT ...], where COMPONENT is one of:")
		for _, name := range componentNames() {
			fmt.Fprintln(os.Stderr, "  "+name)
		}
		os.Exit(2)
	}
	// The component reads its arguments as if it had been started under its own name.
	os.Args = os.Args[1:]
	components[os.Args[0]]()
}

func exitWithOwner() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

func componentNames() []string {
	names := []string{}
	for name := range components {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
