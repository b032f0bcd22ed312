// Command nephele-agent is the agent of hosts and Nodes. It has the commands of "nephele agent" and
// no more, because what it links every host has to hold in its memory.
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
