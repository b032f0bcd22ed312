package clouds

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// Access is what accounts may use of the process that serves them, and how much is taken from each.
// The zero value grants nothing beyond the clouds' own services, and takes as much as the adapters
// do by default.
type Access struct {
	// Endpoints may be called besides the clouds' own.
	Endpoints egress.Rules
	// AmbientNamespaces lists the namespaces with accounts that may have roles assumed with the
	// identity of the process; "*" means all.
	AmbientNamespaces []string
	// Bounds are how much is taken from one account.
	Bounds cloud.Bounds
}

// LocalAccess is the Access of a process that serves the person at this machine: endpoints on it
// may be called.
func LocalAccess() Access { return Access{Endpoints: egress.Local()} }

// tell logs what is granted.
func (a Access) Tell(log logr.Logger) {
	log.Info("What accounts may use", "allowedEndpoints", a.Endpoints.String(), "ambientIdentityNamespaces", a.AmbientNamespaces,
		"maxAnswerBytes", a.Bounds.AnswerBytes, "maxPages", a.Bounds.Pages, "maxObjects", a.Bounds.Objects)
}

// ambient returns the identity of the process if any account may use it, else nil.
func (a Access) ambient(ctx context.Context, cluster string) (*aws.Ambient, error) {
	if len(a.AmbientNamespaces) == 0 {
		return nil, nil
	}
	own, err := aws.LoadAmbient(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("--ambient-identity-namespaces: %w", err)
	}
	return own, nil
}

// lends reports whether the accounts of a namespace may use the identity of the process.
func (a Access) lends(namespace string) bool {
	return slices.Contains(a.AmbientNamespaces, "*") || slices.Contains(a.AmbientNamespaces, namespace)
}
