//go:build !servers

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	loadWorkers = 4
	// Large enough to make the cost of a transaction small, far below what etcd accepts.
	batchObjects = 200
	batchBytes   = 2 << 20
)

// runLoad puts objects straight into etcd, past the API server, which reads them from there.
//
// It reads lines of a key, a tab and a value from standard input until it ends, writes them in
// batches and in no particular order, and prints how many there were. The argument is etcd's URL.
func runLoad(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: testcluster load ETCD_URL < LINES")
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:          arguments,
		MaxCallSendMsgSize: 8 * batchBytes,
	})
	if err != nil {
		return err
	}
	defer client.Close()

	batches := make(chan []clientv3.Op, loadWorkers)
	failures := make(chan error, loadWorkers)
	var workers sync.WaitGroup
	for range loadWorkers {
		workers.Go(func() { failures <- putBatches(client, batches) })
	}
	count, err := readBatches(os.Stdin, batches)
	close(batches)
	workers.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	fmt.Println(count)
	return err
}

func putBatches(client *clientv3.Client, batches <-chan []clientv3.Op) error {
	var failure error
	for batch := range batches {
		// After a failure the rest is still taken, so that the reader never waits for ever.
		if failure == nil {
			_, failure = client.Txn(context.Background()).Then(batch...).Commit()
		}
	}
	return failure
}

func readBatches(input io.Reader, batches chan<- []clientv3.Op) (int, error) {
	lines := bufio.NewReaderSize(input, 1<<20)
	batch, size, count := []clientv3.Op{}, 0, 0
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			key, value, found := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte("\t"))
			if !found {
				return count, fmt.Errorf("line %d has no tab", count+1)
			}
			batch = append(batch, clientv3.OpPut(string(key), string(value)))
			size += len(line)
			count++
		}
		if len(batch) > 0 && (err != nil || len(batch) == batchObjects || size >= batchBytes) {
			batches <- batch
			batch, size = []clientv3.Op{}, 0
		}
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, err
		}
	}
}
