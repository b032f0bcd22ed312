package apiserver

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// Reports takes what enforcers say about policies that concern them: one entry with a short
// message. It must not keep the value. A policy that is not known is no error.
type Reports interface {
	Report(ctx context.Context, s *v1beta2.NetworkPolicyStatus) error
}

const (
	// mostMessage is how much of the message of a report is kept, in bytes: no place shows more of
	// it.
	mostMessage = 1 << 10
	cutMark     = "..."
)

// statuses serves networkpolicies/NAME/status.
type statuses struct {
	reports Reports
	store   *watchstore.Store
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
	if len(status.Nodes) != 1 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("nodes has %d entries, want that of the enforcer which reports", len(status.Nodes)))
	}
	n := &status.Nodes[0]
	if n.NodeName == "" {
		return nil, apierrors.NewBadRequest("nodes[0].nodeName is empty, want the key of the enforcer")
	}
	policies := groupResource(watchstore.NetworkPolicies)
	if err := s.gate.allow(ctx, policies, name, n.NodeName); err != nil {
		return nil, err
	}
	// Only an enforcer that was given a policy reports on it.
	if !s.store.Concerns(watchstore.NetworkPolicies, name, n.NodeName) {
		if _, _, err := s.store.Get(watchstore.NetworkPolicies, name); err != nil {
			return nil, unavailable(err)
		}
		return nil, apierrors.NewNotFound(policies, name)
	}
	if len(n.Message) > mostMessage {
		n.Message = strings.ToValidUTF8(n.Message[:mostMessage-len(cutMark)], "") + cutMark
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
