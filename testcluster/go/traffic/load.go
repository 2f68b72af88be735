package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type loadOptions struct {
	urls      string
	addresses string
	rate      float64
	duration  time.Duration
	timeout   time.Duration
	keepAlive bool
	withOwner bool
}

func parseLoad(arguments []string) loadOptions {
	var options loadOptions
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	flags.StringVar(&options.urls, "urls", "", "the URLs to ask in turn, with commas between them")
	flags.StringVar(&options.addresses, "addresses", "", "a file with a URL on each line, read again when it changes; instead of -urls")
	flags.Float64Var(&options.rate, "rate", 100, "requests per second, however long they take")
	flags.DurationVar(&options.duration, "for", time.Minute, "how long to send requests; SIGINT and SIGTERM end it earlier")
	flags.DurationVar(&options.timeout, "timeout", 10*time.Second, "a request that takes longer has failed; generous, because a busy machine is not a lost request")
	flags.BoolVar(&options.keepAlive, "keep-alive", false, "keep connections open, instead of a new one per request")
	flags.BoolVar(&options.withOwner, "with-owner", false, "exit when standard input ends, so that it never outlives who started it")
	flags.Parse(arguments)
	return options
}

// load sends requests at a given rate, without waiting for the answers to earlier ones, and prints
// what came of them as JSON. Requests that are under way at the end are awaited.
func load(arguments []string) error {
	options := parseLoad(arguments)
	if (options.urls == "") == (options.addresses == "") {
		return errors.New("give either -urls or -addresses")
	}
	if options.rate <= 0 {
		return fmt.Errorf("-rate %g: expected more than 0", options.rate)
	}
	if options.withOwner {
		go exitWithOwner()
	}
	targets := &targets{}
	if options.addresses == "" {
		targets.set(strings.Split(options.urls, ","))
	} else if err := targets.follow(options.addresses); err != nil {
		return err
	}
	results := newResults()
	sendAll(options, targets, results)
	return json.NewEncoder(os.Stdout).Encode(results.summary())
}

func exitWithOwner() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

func sendAll(options loadOptions, targets *targets, results *results) {
	client := newClient(options)
	signals := stopSignals()
	var underWay sync.WaitGroup
	defer underWay.Wait()
	start := time.Now()
	for number := 0; ; number++ {
		due := time.Duration(float64(number) / options.rate * float64(time.Second))
		if due >= options.duration {
			return
		}
		select {
		case <-signals:
			return
		case <-time.After(time.Until(start.Add(due))):
		}
		underWay.Go(func() { send(client, targets.next(), results) })
	}
}

// newClient returns a client as programs in Go use it. With keep-alive, that includes what the
// standard library does when a server closes an idle connection: a GET which fails on a connection
// that was used before, with no byte of an answer, is sent again on another one.
func newClient(options loadOptions) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.DisableKeepAlives = !options.keepAlive
	// The default of two would close most connections after one request.
	transport.MaxIdleConnsPerHost = 100
	return &http.Client{Transport: transport, Timeout: options.timeout}
}

func send(client *http.Client, url string, results *results) {
	began := time.Now()
	host, err := ask(client, url)
	results.add(outcome{began: began, took: time.Since(began), url: url, host: host, err: err})
}

func ask(client *http.Client, url string) (string, error) {
	if url == "" {
		return "", errors.New("no address")
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", response.StatusCode)
	}
	return string(body), nil
}

// targets are the URLs to ask in turn.
type targets struct {
	urls  atomic.Pointer[[]string]
	turns atomic.Uint64
}

func (t *targets) set(urls []string) { t.urls.Store(&urls) }

func (t *targets) next() string {
	urls := *t.urls.Load()
	if len(urls) == 0 {
		return ""
	}
	return urls[t.turns.Add(1)%uint64(len(urls))]
}

// follow reads the URLs from a file now, and again whenever it changes: as a client of a headless
// Service asks DNS again.
func (t *targets) follow(file string) error {
	if err := t.read(file); err != nil {
		return err
	}
	go func() {
		for range time.Tick(50 * time.Millisecond) {
			// Whoever replaces the file may have removed it for a moment.
			_ = t.read(file)
		}
	}()
	return nil
}

func (t *targets) read(file string) error {
	content, err := os.ReadFile(file)
	if err == nil {
		t.set(strings.Fields(string(content)))
	}
	return err
}
