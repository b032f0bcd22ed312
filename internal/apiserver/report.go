package apiserver

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// Reports takes what enforcers say about policies. It must not keep the value. A policy that is not
// known is no error.
type Reports interface {
	Report(ctx context.Context, s *v1beta2.NetworkPolicyStatus) error
}

// statuses serves networkpolicies/NAME/status.
type statuses struct {
	reports Reports
	gate    gate
}

var _ rest.NamedCreater = (*statuses)(nil)

// New implements rest.Storage.
func (s *statuses) New() runtime.Object { return &v1beta2.NetworkPolicyStatus{} }

// Destroy implements rest.Storage.
func (s *statuses) Destroy() {}

// Create implements rest.NamedCreater.
func (s *statuses) Create(ctx context.Context, name string, object runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	status, ok := object.(*v1beta2.NetworkPolicyStatus)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a NetworkPolicyStatus", object))
	}
	if status.Name != name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("metadata.name is %q, but the path names policy %q", status.Name, name))
	}
	for i, n := range status.Nodes {
		if n.NodeName == "" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("nodes[%d].nodeName is empty, want the key of the enforcer", i))
		}
		if err := s.gate.allow(ctx, groupResource(watchstore.NetworkPolicies), name, n.NodeName); err != nil {
			return nil, err
		}
	}
	if validate != nil {
		if err := validate(ctx, object); err != nil {
			return nil, err
		}
	}
	if !dryRun(options) {
		if err := s.reports.Report(ctx, status); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}
