package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud"
)

func newTakeOverCommand() *cobra.Command {
	var cluster source.ClusterFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "take-over NAMESPACE/ACCOUNT",
		Short: "Let this cluster's instance write to an account in place of another one with the same cluster id",
		Long: `Let this cluster's instance write to an account in place of another one with the same cluster id.

Two control planes have the same id if a data directory was copied, or a backup of a cluster was restored beside it. The
one that finds the other at work stops writing and says so: condition SoleWriter of the CloudProviderAccount. This
command tells it to go on all the same; the other one then finds it at work, and stops until it is told in its turn. What
this cluster's policies say is enforced from then on.

Without --yes it only shows who is at work. It sets the annotation ` + cloudv1.AnnotationTakeOver + ` to the other
instance's epoch; the controller removes it when it is done.`,
		Example: `  nephele take-over cloud/production
  nephele take-over cloud/production --yes --kubeconfig nephele-data/kubeconfig`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := cluster.Config()
			if err != nil {
				return fmt.Errorf("finding the cluster: %w", err)
			}
			c, err := source.NewClient(cfg)
			if err != nil {
				return err
			}
			return takeOver(cmd, c, args[0], yes)
		},
	}
	cluster.Register(cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "take over; without it only show from which instance")
	return cmd
}

// takeOver shows the instance that keeps this cluster's instance from writing to an account. If
// confirmed, it tells this cluster's instance to take over.
func takeOver(cmd *cobra.Command, c client.Client, name string, yes bool) error {
	namespace, short, ok := strings.Cut(name, "/")
	if !ok || namespace == "" || short == "" {
		return fmt.Errorf("%q names no account: write NAMESPACE/ACCOUNT", name)
	}
	var account cloudv1.CloudProviderAccount
	err := c.Get(cmd.Context(), client.ObjectKey{Namespace: namespace, Name: short}, &account)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no CloudProviderAccount %s in this cluster", name)
	}
	if err != nil {
		return fmt.Errorf("reading CloudProviderAccount %s: %w", name, err)
	}
	out, other := cmd.OutOrStdout(), account.Status.OtherInstance
	if other == "" {
		fmt.Fprintf(out, "%s: no other instance keeps this cluster's from writing; there is nothing to take over.\n", name)
		return terminal.ErrNo
	}
	fmt.Fprintf(out, "%s: another instance with the same cluster id writes to this account, and this cluster's writes nothing", name)
	if cond := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionSoleWriter); cond != nil {
		fmt.Fprintf(out, ", since %s", cond.LastTransitionTime.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	fmt.Fprintf(out, ".\nIts epoch is %s.\n\n", terminal.Printable(cloud.Words(other)))
	if !yes {
		fmt.Fprintf(out, `To take over means that this cluster's policies are enforced, whatever they are; VMs to which none applies get their own
security groups back.
The other instance finds that out, and writes nothing any more until it is told to take over in its turn.
If this cluster is the copy, do not take over: stop it.

To take over:

  nephele take-over %s --yes
`, name)
		return terminal.ErrNo
	}
	before := account.DeepCopy()
	if account.Annotations == nil {
		account.Annotations = map[string]string{}
	}
	account.Annotations[cloudv1.AnnotationTakeOver] = other
	// Without a lock on the version: status is written all the time, and the value names the other
	// instance and means nothing for a third.
	if err := c.Patch(cmd.Context(), &account, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("annotating CloudProviderAccount %s: %w", name, err)
	}
	fmt.Fprintf(out, `This cluster's instance was told to take over. It waits for a heartbeat, so that the other one has stopped, and then enforces.
See the condition SoleWriter:

  kubectl get cpa %s -n %s
`, short, namespace)
	return nil
}
