package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

type serveOptions struct {
	host   string
	ports  string
	warmUp time.Duration
	work   time.Duration
	grace  time.Duration
	abrupt bool
	ready  string
	fault  string
	on     string
}

func parseServe(arguments []string) serveOptions {
	var options serveOptions
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	flags.StringVar(&options.host, "host", "", "the address to listen on; all of the pod's by default")
	flags.StringVar(&options.ports, "ports", "8080", "the ports to listen on, with commas between them")
	flags.DurationVar(&options.warmUp, "warm-up", 0, "how long no port is open after the start")
	flags.DurationVar(&options.work, "work", 0, "how long each request takes")
	flags.DurationVar(&options.grace, "grace", 10*time.Second, "how long requests may take to end after SIGTERM")
	flags.BoolVar(&options.abrupt, "abrupt", false, "exit at SIGTERM at once, in the middle of requests")
	flags.StringVar(&options.ready, "ready-path", "/readyz", "the path for probes; it takes no time")
	flags.StringVar(&options.fault, "fault", "", "what goes wrong: crash, flap (fail every other probe) or hog (use memory without end)")
	flags.StringVar(&options.on, "on", "", "where it goes wrong: only on the node whose name is in the variable NODE_NAME; by default everywhere")
	flags.Parse(arguments)
	if options.on != "" && options.on != os.Getenv("NODE_NAME") {
		options.fault = ""
	}
	return options
}

// serve answers every request with the name of the host, which is the pod's.
//
// At SIGTERM it closes its ports, ends the requests that it has begun, and exits; it does not wait
// for those that are still on their way to it. That is what most applications do.
func serve(arguments []string) error {
	options := parseServe(arguments)
	signals := stopSignals()
	switch options.fault {
	case "crash":
		return errors.New("crashed, as it was told to")
	case "hog":
		// No port is opened: on a busy machine it may get ready before it has used up its memory.
		go hog()
		<-signals
		return nil
	}
	select {
	case <-signals:
		return nil
	case <-time.After(options.warmUp):
	}
	server := &http.Server{Handler: handler(options)}
	failures := make(chan error, 1)
	for port := range strings.SplitSeq(options.ports, ",") {
		listener, err := net.Listen("tcp", net.JoinHostPort(options.host, port))
		if err != nil {
			return err
		}
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				failures <- err
			}
		}()
	}
	logTime("listening on " + options.ports)
	select {
	case err := <-failures:
		return err
	case <-signals:
	}
	logTime("SIGTERM")
	if options.abrupt {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), options.grace)
	defer cancel()
	return server.Shutdown(ctx)
}

func handler(options serveOptions) http.Handler {
	host, _ := os.Hostname()
	mux := http.NewServeMux()
	var probes atomic.Int64
	mux.HandleFunc(options.ready, func(w http.ResponseWriter, r *http.Request) {
		if probes.Add(1)%2 == 0 && options.fault == "flap" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, "ok")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(options.work)
		fmt.Fprint(w, host)
	})
	return mux
}

func logTime(what string) {
	fmt.Println(time.Now().UTC().Format(time.RFC3339Nano), what)
}

// hog uses ever more memory, so that its container reaches its limit and is killed.
func hog() {
	var held [][]byte
	for {
		block := make([]byte, 1<<20)
		for index := range block {
			block[index] = 1
		}
		held = append(held, block)
		time.Sleep(time.Duration(len(held)) * time.Millisecond)
	}
}
