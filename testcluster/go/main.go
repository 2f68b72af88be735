// Command testcluster is a Kubernetes control plane in one program, to test against.
//
// Its first argument picks the component; the others are that component's own. One program
// instead of six shares most of its code, so it is built and stored once.
//
// With --with-owner before the component, the process ends as soon as its standard input does.
// Whoever starts it holds the other end of that pipe, so that however the owner ends, even killed
// outright, nothing is left running.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJobs may name a time zone, and the machine may have no database of them.

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"
)

// Each entry constructs its command only when it is run: every one of them installs the
// process's signal handler, and installing it twice panics.
var components = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
	"kube-controller-manager": func() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) },
	"kube-scheduler":          func() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) },
	"kwok":                    runKwok,
	"kubectl":                 runKubectl,
	"oracle":                  func() { runOracle(slices.Contains(os.Args[1:], "--with-old-pod")) },
	"stages":                  printStages,
	"load":                    func() { exit(runLoad(os.Args[1:])) },
	"quantities":              printQuantities,
}

func main() {
	// An image may have it under the name of a component.
	if run := components[filepath.Base(os.Args[0])]; run != nil {
		run()
		return
	}
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

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func componentNames() []string {
	names := []string{}
	for name := range components {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func runKubectl() {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}

// runKwok starts kwok as its own main does: its configuration files are read before its
// command exists, by a flag set of their own.
func runKwok() {
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, logger := kwoklog.InitFlags(kwoksignals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		logger.Error("Read kwok's configuration", "err", err)
		os.Exit(1)
	}
	command := kwok.NewCommand(ctx)
	// Kubernetes has registered another --version for the whole process, which kwok's would hit.
	command.Version = ""
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		logger.Error("Run kwok", "err", err)
		os.Exit(1)
	}
}

// printStages prints what fake nodes and pods do, as kwok itself ships it: nodes become Ready
// and renew their leases; pods become Ready at once, complete if they are a Job's, and go when deleted.
func printStages() {
	stages := []string{
		nodefast.DefaultNodeInit,
		heartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
		podfast.DefaultPodDelete,
	}
	fmt.Println(strings.Join(stages, "\n---\n"))
}
