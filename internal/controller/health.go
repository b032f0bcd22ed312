package controller

import (
	"errors"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// checkHealth adds what /healthz and /readyz look at: the process lives, and it is the one of
// several replicas that works. Without a check the paths are not served at all.
func checkHealth(mgr manager.Manager) error {
	works := func(*http.Request) error {
		select {
		case <-mgr.Elected():
			return nil
		default:
			return errors.New("another replica has the lock")
		}
	}
	if err := errors.Join(mgr.AddHealthzCheck("process", healthz.Ping), mgr.AddReadyzCheck("lock", works)); err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	return nil
}
