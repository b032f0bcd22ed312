package source

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/remote"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/preview"
)

// ClusterFlags say which cluster a command reads.
type ClusterFlags struct {
	terminal.Cluster
	// Local keeps questions from the controller of the cluster.
	Local bool
}

// RegisterLocal adds the flag of commands that ask the controller.
func (f *ClusterFlags) RegisterLocal(flags *pflag.FlagSet) {
	flags.BoolVar(&f.Local, "local", false, "do not ask the controller: work the answer out here, from what you may read yourself")
}

// ClientOrFiles is Client for commands that need no cluster if they are given manifests: its error
// says so.
func (f ClusterFlags) ClientOrFiles() (client.Client, error) {
	cfg, err := f.Config()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster (give manifests with -f to work without one): %w", err)
	}
	return NewClient(cfg)
}

// Client returns a client that reads the cluster as it is now.
func (f ClusterFlags) Client() (client.Client, error) {
	cfg, err := f.Config()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	return NewClient(cfg)
}

// NewClient returns a client with all kinds that this program knows.
func NewClient(cfg *rest.Config) (client.Client, error) {
	scheme, err := kinds.Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster: %w", err)
	}
	return c, nil
}

// readKind lists a kind. A kind whose definition need not be installed, and one that a person need
// not be allowed to read, counts as if there were none.
func readKind(ctx context.Context, c client.Reader, k kinds.Kind) ([]runtime.Object, error) {
	into := k.NewList()
	err := c.List(ctx, into)
	switch gone := meta.IsNoMatchError(err) || apierrors.IsNotFound(err); {
	case err == nil:
		return meta.ExtractList(into)
	case gone && (k.Is(kinds.Optional) || k.Is(kinds.Withheld)), apierrors.IsForbidden(err) && k.Is(kinds.Withheld):
		return nil, nil
	}
	return nil, err
}

// Inputs reads what policies are computed from, from a cluster.
func Inputs(ctx context.Context, c client.Reader) (*preview.Inputs, error) {
	in := &preview.Inputs{Objects: input.Objects{At: time.Now()}}
	for _, k := range kinds.Of(kinds.Explained) {
		objects, err := readKind(ctx, c, k)
		if err != nil {
			return nil, fmt.Errorf("reading the cluster: %w", err)
		}
		in.Objects.Add(objects...)
	}
	var err error
	if in.Objects.Remote, in.Objects.OwnLabels, err = readElsewhere(ctx, c); err != nil {
		return nil, fmt.Errorf("reading the cluster: %w", err)
	}
	return in, nil
}

// readElsewhere reads what the hub of the set has sent: the workloads of other clusters in peers,
// as last recorded, and the labels that Namespaces and Nodes have in the set. There is nothing
// where the kinds are not installed or may not be read.
func readElsewhere(ctx context.Context, c client.Reader) ([]policy.Entity, map[string]string, error) {
	var groups setv1alpha1.RemoteGroupList
	var memberships setv1alpha1.MembershipList
	for _, list := range []client.ObjectList{&groups, &memberships} {
		if err := c.List(ctx, list); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return nil, nil, nil
		} else if err != nil {
			return nil, nil, err
		}
	}
	book := remote.New(peers.Allows)
	var own map[string]string
	for i := range memberships.Items {
		if m := &memberships.Items[i]; m.Status.Labels != nil {
			own = peers.Given(m.Spec.Cluster, m.Status.Labels)
		}
		book.Expire(memberships.Items[i].Status.Expired)
	}
	for i := range groups.Items {
		if err := book.LoadText(groups.Items[i].Name, groups.Items[i].Content); err != nil {
			return nil, nil, err
		}
	}
	return book.Entities(), own, nil
}
