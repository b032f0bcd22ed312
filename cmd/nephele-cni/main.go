// Command nephele-cni is the chained CNI plugin by which new Pods are closed until their policies
// are in force. Runtimes start it for each Pod, so it is a program of its own and small.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/nephele-io/nephele/internal/agent/cni"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cni.Main(ctx, "nephele-cni: chained CNI plugin that lets Pods start when their network policies are in force")
}
