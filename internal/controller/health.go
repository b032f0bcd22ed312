package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// checkHealth adds what /healthz and /readyz look at. A process is ready if it does what it is to
// do: the replica that leads serves its API, and the others have read what they need to lead at any
// moment. Without a check the paths are not served at all.
func checkHealth(mgr manager.Manager, proc *process) error {
	works := func(r *http.Request) error {
		select {
		case <-mgr.Elected():
			return errors.Join(proc.serving(), proc.loops.wrong())
		default:
		}
		ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("this replica has not read everything yet")
		}
		return nil
	}
	if err := errors.Join(mgr.AddHealthzCheck("process", healthz.Ping), mgr.AddReadyzCheck("works", works)); err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	return nil
}

// serving says what is missing until the process that leads can serve its API; nil also if it has
// none. Whether kube-apiserver reaches it does not count: kube-apiserver reaches only replicas that
// are ready.
func (proc *process) serving() error {
	if proc.API == nil || proc.loopback.server == nil {
		return nil
	}
	return proc.loopback.server.Ready()
}

// loops are the checks of the loops of a process, which come with these.
type loops struct {
	mu     sync.Mutex
	checks []func() error
}

// add adds a check of a loop.
func (l *loops) add(check func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checks = append(l.checks, check)
}

// wrong says which loops do not do what they are there for; nil if all do.
func (l *loops) wrong() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, check := range l.checks {
		errs = append(errs, check())
	}
	return errors.Join(errs...)
}
