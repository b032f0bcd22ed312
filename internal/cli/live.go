package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstreamv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	upstreamv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/consolecmd"
	"github.com/nephele-io/nephele/internal/cli/releasecmd"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview"
)

// clusterFlags say which cluster a command reads.
type clusterFlags struct {
	terminal.Cluster
	// local keeps questions from the controller of the cluster.
	local bool
}

// registerLocal adds the flag of commands that ask the controller.
func (f *clusterFlags) registerLocal(flags *pflag.FlagSet) {
	flags.BoolVar(&f.local, "local", false, "do not ask the controller: work the answer out here, from what you may read yourself")
}

// consoleNeeds are the cluster and the log of "console".
func consoleNeeds() consolecmd.Needs {
	var f clusterFlags
	return consolecmd.Needs{
		Register: f.Register, Cluster: func() (*rest.Config, string, error) { return f.Named() }, Version: Version(),
		Log: func(cmd *cobra.Command) logr.Logger { return terminal.NewLogger(cmd.ErrOrStderr(), false) },
	}
}

func releaseNeeds() releasecmd.Needs {
	var f clusterFlags
	return releasecmd.Needs{Register: f.Register, Client: func() (client.Client, error) { return f.client() }, Printable: terminal.Printable, Now: time.Now}
}

// client returns a client that reads the cluster as it is now.
func (f clusterFlags) client() (client.Client, error) {
	cfg, err := f.Config()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster (give manifests with -f to work without one): %w", err)
	}
	return newClient(cfg)
}

func newClient(cfg *rest.Config) (client.Client, error) {
	scheme, err := controller.Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster: %w", err)
	}
	return c, nil
}

// reader lists kinds until one fails.
type reader struct {
	ctx context.Context
	client.Reader
	err error
}

func list[L client.ObjectList](r *reader, into L) L {
	if r.err == nil {
		r.err = r.List(r.ctx, into)
	}
	return into
}

// listServed lists a kind whose definition need not be installed; then there are none.
func listServed[L client.ObjectList](r *reader, into L) L {
	if r.err != nil {
		return into
	}
	if err := r.List(r.ctx, into); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		r.err = err
	}
	return into
}

// listReadable lists a kind that a person need not be allowed to read; then there are none.
func listReadable[L client.ObjectList](r *reader, into L) L {
	alone := &reader{ctx: r.ctx, Reader: r.Reader, err: r.err}
	listServed(alone, into)
	if r.err == nil && !apierrors.IsForbidden(alone.err) {
		r.err = alone.err
	}
	return into
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// readInputs reads what policies are computed from, from a cluster.
func readInputs(ctx context.Context, c client.Reader) (*preview.Inputs, error) {
	r := &reader{ctx: ctx, Reader: c}
	in := &preview.Inputs{Objects: explain.Objects{
		At:              time.Now(),
		Namespaces:      pointers(list(r, &corev1.NamespaceList{}).Items),
		Pods:            pointers(list(r, &corev1.PodList{}).Items),
		Nodes:           pointers(list(r, &corev1.NodeList{}).Items),
		Services:        pointers(list(r, &corev1.ServiceList{}).Items),
		Entities:        pointers(list(r, &v1alpha2.ExternalEntityList{}).Items),
		ExternalNodes:   pointers(list(r, &v1alpha1.ExternalNodeList{}).Items),
		AgentInfos:      pointers(listReadable(r, &v1beta1.AntreaAgentInfoList{}).Items),
		Tiers:           pointers(list(r, &v1beta1.TierList{}).Items),
		Groups:          pointers(list(r, &v1beta1.GroupList{}).Items),
		ClusterGroups:   pointers(list(r, &v1beta1.ClusterGroupList{}).Items),
		Policies:        pointers(list(r, &v1beta1.NetworkPolicyList{}).Items),
		ClusterPolicies: pointers(list(r, &v1beta1.ClusterNetworkPolicyList{}).Items),
		K8sPolicies:     pointers(list(r, &networkingv1.NetworkPolicyList{}).Items),

		AdminPolicies:    pointers(listServed(r, &upstreamv1alpha1.AdminNetworkPolicyList{}).Items),
		BaselinePolicies: pointers(listServed(r, &upstreamv1alpha1.BaselineAdminNetworkPolicyList{}).Items),
		UpstreamPolicies: pointers(listServed(r, &upstreamv1alpha2.ClusterNetworkPolicyList{}).Items),

		Accounts:  pointers(list(r, &cloudv1alpha1.CloudProviderAccountList{}).Items),
		Selectors: pointers(list(r, &cloudv1alpha1.CloudEntitySelectorList{}).Items),
		VMs:       pointers(list(r, &cloudv1alpha1.VirtualMachineList{}).Items),

		// Former releases do not serve these, and former roles do not let them be read.
		NativeServices: pointers(listReadable(r, &cloudv1alpha1.CloudNativeServiceList{}).Items),
		Interfaces:     pointers(listReadable(r, &cloudv1alpha1.NetworkInterfaceList{}).Items),
	}}
	if r.err != nil {
		return nil, fmt.Errorf("reading the cluster: %w", r.err)
	}
	return in, nil
}
