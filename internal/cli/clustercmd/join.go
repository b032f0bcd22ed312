package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/clusterset/member/certificate"
	"github.com/nephele-io/nephele/internal/clusterset/plain"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

// credentialsNamespace is that of the Secret with what a member proves itself with.
const credentialsNamespace = "kube-system"

// joinPoll is how often join looks whether it has succeeded.
const joinPoll = 500 * time.Millisecond

func newJoinCommand(to connect) *cobra.Command {
	var cluster terminal.Cluster
	var accept setv1alpha1.Acceptance
	var clusterWide, questions, accounts bool
	var stale time.Duration
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "join TOKEN",
		Short: "Make this cluster a member of the set that a token is from",
		Long: `Make this cluster a member of the set that a token of "nephele cluster token" is from. The controller of this cluster connects to the hub, which connects to
nothing here. From then on the hub learns which workloads there are, with their labels and addresses, and its policies for this cluster are enforced here, as far as
the flags accept them.

The command waits until the two are connected. What goes wrong is in the status of the Membership, too: kubectl get membership hub -o yaml.`,
		Example: `  nephele join cluster:east:SECRET:HASH@hub.example.org:10349
  nephele join TOKEN --accept-namespaces 'shop,team-*' --accept-cluster-wide=false`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			invitation, err := credential.ParseClusterInvitation(args[0])
			if err != nil {
				return err
			}
			c, err := to.reach(&cluster)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("accept-cluster-wide") {
				accept.ClusterWide = &clusterWide
			}
			if cmd.Flags().Changed("accept-questions") {
				accept.Questions = &questions
			}
			if cmd.Flags().Changed("accept-accounts") {
				accept.Accounts = &accounts
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			own, err := ownName(ctx, c)
			if err != nil {
				return err
			}
			if own != "" && own != invitation.Host.Name {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: the ClusterProperty %s of this cluster says %s, and in the set it will be %s\n", ownNameProperty, terminal.Printable(own), invitation.Host.Name)
			}
			if err := join(ctx, c, invitation, accept, stale); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "This cluster is member %s of the set of %s.\n", invitation.Host.Name, invitation.Server)
			return nil
		},
	}
	f := cmd.Flags()
	cluster.Register(f)
	f.BoolVar(&clusterWide, "accept-cluster-wide", true, "take policies of the hub that are in no Namespace")
	f.DurationVar(&stale, "stale-after", 0, "how long workloads of other clusters count in rules that allow while the hub is not heard of; 0 is without end")
	f.BoolVar(&accounts, "accept-accounts", true, "leave regions of cloud accounts alone that the hub says are another member's")
	f.BoolVar(&questions, "accept-questions", true, "answer what the hub asks about single flows")
	f.StringSliceVar(&accept.Namespaces, "accept-namespaces", nil, "Namespaces in which policies of the hub are taken: names, or beginnings followed by *; none means all")
	f.StringSliceVar(&accept.Tiers, "accept-tiers", nil, "tiers in which policies of the hub are taken; none means all")
	f.DurationVar(&timeout, "timeout", time.Minute, "how long to wait for the connection")
	return cmd
}

// join writes what the controller joins by, and waits until it has.
func join(ctx context.Context, c client.Client, invitation credential.Invitation, accept setv1alpha1.Acceptance, stale time.Duration) error {
	var present setv1alpha1.Membership
	err := c.Get(ctx, client.ObjectKey{Name: setv1alpha1.MembershipName}, &present)
	switch {
	case meta.IsNoMatchError(err):
		return errors.New("this cluster does not know Memberships: apply the definitions of api/generated first")
	case err == nil && meta.IsStatusConditionTrue(present.Status.Conditions, setv1alpha1.MembershipConnected):
		return fmt.Errorf("this cluster is member %s of the set of %s: nephele leave ends that", present.Spec.Cluster, strings.Join(present.Spec.Hub, ", "))
	case err == nil: // it did not succeed, or the hub is another one now
		if err := c.Delete(ctx, &present); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("replace the Membership: %w", err)
		}
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("read the Membership: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: credentialsNamespace, Name: certificate.CredentialsName, Labels: map[string]string{"app.kubernetes.io/name": "nephele"}},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{certificate.KeyToken: []byte(invitation.String())},
	}
	if err := c.Delete(ctx, secret.DeepCopy()); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("replace Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	if err := c.Create(ctx, secret); err != nil {
		return fmt.Errorf("store the token: %w", err)
	}
	m := &setv1alpha1.Membership{
		ObjectMeta: metav1.ObjectMeta{Name: setv1alpha1.MembershipName},
		Spec:       setv1alpha1.MembershipSpec{Hub: strings.Split(invitation.Server, ","), Cluster: invitation.Host.Name, Accept: accept},
	}
	if stale > 0 {
		m.Spec.StaleAfter = &metav1.Duration{Duration: stale}
	}
	if err := c.Create(ctx, m); err != nil {
		return fmt.Errorf("make the Membership: %w", err)
	}
	return await(ctx, c)
}

// await waits until the Membership is connected.
func await(ctx context.Context, c client.Client) error {
	why := "the controller of this cluster has not taken it up; does it run?"
	for {
		var m setv1alpha1.Membership
		if err := c.Get(ctx, client.ObjectKey{Name: setv1alpha1.MembershipName}, &m); err == nil {
			if meta.IsStatusConditionTrue(m.Status.Conditions, setv1alpha1.MembershipConnected) {
				return nil
			}
			for _, kind := range []string{setv1alpha1.MembershipConnected, setv1alpha1.MembershipJoined} {
				if cond := meta.FindStatusCondition(m.Status.Conditions, kind); cond != nil && cond.Status != metav1.ConditionTrue && cond.Message != "" {
					why = cond.Message
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not connected to the hub: %s", terminal.PrintableLines(why))
		case <-time.After(joinPoll):
		}
	}
}

func newLeaveCommand(to connect) *cobra.Command {
	var cluster terminal.Cluster
	var keep, drop bool
	cmd := &cobra.Command{
		Use:   "leave {--keep | --drop}",
		Short: "End the membership of this cluster in its set",
		Long: `End the membership of this cluster in its set: the controller disconnects, and its credentials are deleted.

With --keep the policies of the hub stay in force, with who was in their peers when it left. With --drop they are removed, those in Namespaces first. What the hub knows
of this cluster goes there with its Cluster: kubectl delete cluster.set.nephele.io NAME.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keep == drop {
				return errors.New("give --keep, by which the policies of the hub stay in force, or --drop, by which they go")
			}
			c, err := to.reach(&cluster)
			if err != nil {
				return err
			}
			return leave(cmd.Context(), c, drop)
		},
	}
	cluster.Register(cmd.Flags())
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the policies of the hub in force")
	cmd.Flags().BoolVar(&drop, "drop", false, "remove the policies of the hub")
	return cmd
}

// leave deletes the Membership, and perhaps what the hub has sent: groups after the policies that
// name them.
func leave(ctx context.Context, c client.Client, drop bool) error {
	gone := func(o client.Object) error {
		if err := c.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %T %s: %w", o, o.GetName(), err)
		}
		return nil
	}
	err := errors.Join(gone(&setv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: setv1alpha1.MembershipName}}),
		gone(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: credentialsNamespace, Name: certificate.CredentialsName}}))
	if err != nil || !drop {
		return err
	}
	for _, list := range []client.ObjectList{&networkingv1.NetworkPolicyList{}, &v1beta1.NetworkPolicyList{}, &v1beta1.ClusterNetworkPolicyList{}, &v1beta1.GroupList{},
		&v1beta1.ClusterGroupList{}, &v1alpha2.ExternalEntityList{}, &corev1.NamespaceList{}, &setv1alpha1.RemoteGroupList{}} {
		options := []client.ListOption{client.MatchingLabels{setv1alpha1.LabelFromHub: "true"}}
		if _, record := list.(*setv1alpha1.RemoteGroupList); record {
			options = nil
		}
		if err := c.List(ctx, list, options...); err != nil {
			return fmt.Errorf("list what is from the hub: %w", err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			if _, namespace := o.(*corev1.Namespace); namespace && o.(client.Object).GetName() != plain.Namespace {
				return nil
			}
			return gone(o.(client.Object))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
