// Package nodecertificates gives Nodes certificates by which they know one another when they
// encrypt by IPsec.
//
// It owns the kind NodeCertificate, and promises that a certificate of a Node is given to its own
// agent only. It keeps nothing. Its storage is safe for concurrent use.
package nodecertificates

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/storage"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

// Signer signs certificates; an enroll.Desk does.
type Signer interface {
	// CertifyNode answers the request of a Node.
	CertifyNode(ctx context.Context, name string, request []byte) (credential.Papers, error)
}

// Storage is served.
type Storage struct {
	storage.Resource
	signer Signer
	isNode func(caller user.Info, node string) bool
}

var _ rest.Creater = (*Storage)(nil)

// New returns what is served. isNode reports whether a caller is a Node, or a Pod on it.
func New(s Signer, isNode func(caller user.Info, node string) bool) *Storage {
	group := schema.GroupResource{Group: analysis.GroupName, Resource: "nodecertificates"}
	return &Storage{storage.New(group, "nodecertificate", false, func() runtime.Object { return &analysis.NodeCertificate{} }), s, isNode}
}

// Create implements rest.Creater. A certificate is given to the Node itself only, whatever else a
// caller may.
func (n *Storage) Create(ctx context.Context, object runtime.Object, _ rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	asked, ok := object.(*analysis.NodeCertificate)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a NodeCertificate", object))
	}
	if asked.Name == "" {
		return nil, apierrors.NewBadRequest("metadata.name is empty, want the name of the Node")
	}
	caller, known := request.UserFrom(ctx)
	if !known || !n.isNode(caller, asked.Name) {
		return nil, apierrors.NewForbidden(n.Group, asked.Name, errors.New("a certificate of a Node is given to its own agent only: the one whose token is bound to the Node"))
	}
	out := asked.DeepCopy()
	out.Status = analysis.NodeCertificateStatus{}
	if options != nil && len(options.DryRun) > 0 {
		return out, nil
	}
	papers, err := n.signer.CertifyNode(ctx, asked.Name, []byte(asked.Spec.Request))
	if err != nil {
		return nil, err
	}
	out.Status.Certificate, out.Status.Authorities = papers.Certificate, papers.Authority
	return out, nil
}
