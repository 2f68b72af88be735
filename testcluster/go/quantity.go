//go:build !servers

package main

import (
	"bufio"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

// printQuantities reads a quantity from each line of standard input and prints what Kubernetes
// makes of it: whole units and thousandths, or "refused".
func printQuantities() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		quantity, err := resource.ParseQuantity(lines.Text())
		if err != nil {
			fmt.Println("refused")
			continue
		}
		fmt.Println(quantity.Value(), quantity.MilliValue())
	}
	exit(lines.Err())
}
