// Package up runs the whole of Nephele in one process: a control plane, its API types, and the
// controller, until it is asked to stop. Several of these processes may be one hub, on one
// database, which the command "hub" is for.
//
// Run owns everything it starts: when it returns, the controller has ended, the control plane has
// been stopped in order, and the data directory is free. The Kubernetes libraries allow one control
// plane per process, hence one Run at a time.
package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/config/grants"
	"github.com/nephele-io/nephele/internal/platform/progress"
	"github.com/nephele-io/nephele/standalone/internal/controlplane"
)

// stopLimit bounds an orderly stop. Beyond it the process ends as if killed, which loses nothing.
const stopLimit = 30 * time.Second

// errFinished is the cause for which a session ends when it is over, rather than interrupted or
// broken.
var errFinished = errors.New("finished")

// RunController runs the controller against an API server until ctx ends. It returns nil then, or
// why it cannot go on. It calls ready when the API server can do everything it does with the
// controller beside it.
type RunController func(ctx context.Context, cfg *rest.Config, ready func()) error

// Config says what to run and where.
type Config struct {
	// DataDir and Listen are the control plane's.
	DataDir string
	Listen  string
	// Peers is set if the control plane is one of several on one database.
	Peers *controlplane.Peers
	// CRDs are the CustomResourceDefinitions to install, one per file.
	CRDs fs.FS
	// Shared returns the groups of those that somebody else may have installed; what is there of
	// them stays as it is. Nil means none.
	Shared func() []string
	// Controller is run as soon as these are served, and awaited until it is ready. With nil only
	// the control plane runs.
	Controller RunController
	// Progress receives a line when something takes longer than a second; Terminal says whether its
	// lines can be rewritten.
	Progress io.Writer
	Terminal bool
}

// Session is what is running.
type Session struct {
	// RestConfig is the administrator's client configuration.
	RestConfig *rest.Config
	// URL is the address of the API server, Kubeconfig and LogDir are paths.
	URL        string
	Kubeconfig string
	LogDir     string
	// StartUp is how long it took until everything ran.
	StartUp time.Duration
}

// Run starts everything, calls during, and stops everything when that returns. The context of
// during ends when ctx ends, and also when the controller or the control plane fails. Run returns
// nil after an interruption (ctx has ended), else the first error of these parties.
func Run(ctx context.Context, cfg Config, during func(ctx context.Context, s Session) error) (err error) {
	begin := time.Now()
	steps := progress.New(cfg.Progress, cfg.Terminal)
	defer steps.Close()
	cp, err := controlplane.Start(ctx, controlplane.Options{DataDir: cfg.DataDir, Listen: cfg.Listen, Peers: cfg.Peers, Progress: steps.Step, Podless: true})
	if err != nil {
		return unlessInterrupted(ctx, err)
	}
	defer func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(unlessInterrupted(ctx, err), cp.Stop(stopCtx))
	}()
	if err := cp.Ready(ctx); err != nil {
		return err
	}
	steps.Step("installing CustomResourceDefinitions")
	var shared []string
	if cfg.Shared != nil {
		shared = cfg.Shared()
	}
	if err := cp.InstallCRDs(ctx, cfg.CRDs, shared...); err != nil {
		return err
	}
	// At every start, so that a new version brings its own, and what somebody has taken away is put
	// back.
	steps.Step("installing admission policies and roles")
	if err := cp.Apply(ctx, grants.FS()); err != nil {
		return err
	}
	steps.Step("starting the controller")
	return attend(ctx, cp, cfg.Controller, func(ctx context.Context) error {
		steps.Step("")
		defer trimHeap()()
		quorum, err := newQuorum(cp.RestConfig(), cfg.DataDir, cfg.Peers != nil)
		if err != nil {
			return err
		}
		defer quorum.start(ctx)()
		return during(ctx, Session{
			RestConfig: cp.RestConfig(), URL: cp.URL(), Kubeconfig: cp.Kubeconfig(), LogDir: cp.LogDir(),
			StartUp: time.Since(begin),
		})
	})
}

// attend calls during with the controller ready beside it, and waits for that to end.
func attend(ctx context.Context, cp *controlplane.ControlPlane, run RunController, during func(ctx context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	var parties sync.WaitGroup
	defer parties.Wait()
	defer end(errFinished)
	parties.Go(func() {
		select {
		case <-cp.Done():
			end(cp.Err())
		case <-ctx.Done():
		}
	})
	ready := make(chan struct{})
	if run == nil {
		close(ready)
	} else {
		parties.Go(func() {
			err := run(ctx, cp.InProcess(), sync.OnceFunc(func() { close(ready) }))
			switch {
			case ctx.Err() != nil:
			case err != nil:
				end(fmt.Errorf("controller: %w", err))
			default:
				end(errors.New("the controller has ended by itself"))
			}
		})
	}
	var err error
	select {
	case <-ready:
		if run != nil {
			err = cp.AwaitPolicies(ctx)
		}
		if err == nil {
			err = during(ctx)
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	// A party that broke is the reason for what during then met.
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// unlessInterrupted drops errors that only say that ctx has ended.
func unlessInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}
