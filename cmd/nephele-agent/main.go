// Command nephele-agent is the agent of hosts and Nodes. It has the commands of "nephele agent" at
// its root and no more, because every host has to hold in its memory what the program links.
//
// # Why it is a program of its own
//
// As a command of nephele the agent took 153 MB of disk on each host and 88 MB resident, because
// the runtime initializes what is linked: the SDKs of two clouds, an API server, client-go's
// clientset. This program has 20 MB, and 17 MB resident. It is cut at the seams of packages: the
// credentials of a host are internal/enroll/credential, apart from the package that judges them;
// Pods, Services and EndpointSlices are followed by an interface of one method, without a
// clientset; the metadata service of AWS is asked by two plain requests. A test of test/house lists
// what the program links, and fails for SDKs, servers, clientsets and packages of the controller,
// so a new import is looked at twice.
//
// Build tags would make two programs under one name, of which no test sees both. Giving pages back
// to the system after the start does not help: they return with the next request.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/nephele-io/nephele/internal/cli/agentcmd"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

// stampedVersion and stampedRevision are set by the linker where a release is built.
var stampedVersion, stampedRevision string

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	program := agentcmd.Program(terminal.Built(stampedVersion, stampedRevision), sealing())
	return terminal.Run(ctx, program, os.Args[1:], terminal.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}
