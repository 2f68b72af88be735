// Command traffic is a web server to be moved about, and the load that shows whether anybody noticed.
//
// `pause` waits for a signal, as the sandbox of a pod does. `serve` answers HTTP requests. `load`
// sends them. It is one static file, so that an image needs nothing else.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

var modes = map[string]func(arguments []string) error{
	"pause": pause,
	"serve": serve,
	"load":  load,
}

func main() {
	if len(os.Args) < 2 || modes[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: traffic pause|serve|load [FLAG ...]; with -h, the flags of one of them")
		os.Exit(2)
	}
	if err := modes[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "traffic %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func pause([]string) error {
	<-stopSignals()
	return nil
}

func stopSignals() <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	return signals
}
