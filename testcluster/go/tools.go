//go:build !servers

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"
)

func init() {
	components["kwok"] = runKwok
	components["kubectl"] = runKubectl
	components["oracle"] = func() { runOracle(slices.Contains(os.Args[1:], "--with-old-pod")) }
	components["stages"] = printStages
	components["load"] = func() { exit(runLoad(os.Args[1:])) }
	components["quantities"] = printQuantities
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
