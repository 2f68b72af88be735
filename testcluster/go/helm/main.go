// Command helm is Helm itself, built from its module. Tests of the chart lint, render and install
// with it.
package main

import (
	"errors"
	"fmt"
	"os"

	"helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

func main() {
	// Otherwise the manager of the fields that it applies would be named like this file.
	kube.ManagedFieldsManager = "helm"
	root, err := cmd.NewRootCmd(os.Stdout, os.Args[1:], cmd.SetupLogging)
	if err != nil {
		fmt.Fprintln(os.Stderr, "helm:", err)
		os.Exit(1)
	}
	if err := root.Execute(); err != nil {
		if failure, ok := errors.AsType[cmd.CommandError](err); ok {
			os.Exit(failure.ExitCode)
		}
		os.Exit(1)
	}
}
