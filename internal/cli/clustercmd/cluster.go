// Package clustercmd are the commands about several clusters: "nephele cluster" in the hub,
// "nephele join" and "nephele leave" in a member.
//
// It owns their flags and what they print. A command runs once.
package clustercmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/status"
)

// connect reaches a cluster by a configuration.
type connect func(*rest.Config) (client.Client, error)

// reach returns a client of the cluster that the flags lead to.
func (to connect) reach(cluster *terminal.Cluster) (client.Client, error) {
	cfg, err := cluster.Config()
	if err != nil {
		return nil, err
	}
	return to(cfg)
}

// Commands are all commands of the package. They reach a cluster by what is given.
func Commands(to func(*rest.Config) (client.Client, error)) []*cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "In a hub: let clusters join the set, and show them",
		Args:  terminal.NoSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCommand(to), newListCommand(to))
	return []*cobra.Command{cmd, newJoinCommand(to), newLeaveCommand(to)}
}

func newTokenCommand(to connect) *cobra.Command {
	var cluster terminal.Cluster
	var lifetime time.Duration
	var server string
	var bounds setv1alpha1.ClusterAddresses
	var labels map[string]string
	var seen, visible []string
	var profile string
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Make a token by which a cluster can join, once",
		Long: `Make a token by which a cluster can join the set under this name, once. It replaces one that was made before; a member that joins anew takes the place of
the one that had joined.

If there is no Cluster of this name it is made, with the labels and addresses that are given. A member may speak for no other addresses: without any, nothing that it
has is believed before somebody writes them into spec.addresses.

--server is where members reach this hub, if it is not where "nephele up --api-listen" serves.`,
		Example: `  nephele cluster token east --server hub.example.org:10349 --pods 10.1.0.0/16 --label env=prod
  nephele join TOKEN                              # in the other cluster`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := to.reach(&cluster)
			if err != nil {
				return err
			}
			if server == "" {
				if server, err = published(cmd.Context(), c); err != nil {
					return err
				}
			}
			if err := credential.CheckServers(server); err != nil {
				return fmt.Errorf("--server: %w", err)
			}
			spec := setv1alpha1.ClusterSpec{Addresses: bounds, VisibleNamespaces: visible}
			if spec.SeenAs, err = parseSeen(seen); err != nil {
				return fmt.Errorf("--seen-as %w", err)
			}
			if profile != "" {
				if labels, err = withProfile(cmd.Context(), c, profile, labels); err != nil {
					return fmt.Errorf("--profile: %w", err)
				}
			}
			found, err := clusterNamed(cmd.Context(), c, args[0], spec, labels)
			if err != nil {
				return err
			}
			i, end, err := enroll.InviteCluster(cmd.Context(), c, found, server, lifetime, time.Now())
			if err != nil {
				return err
			}
			a := found.Spec.Addresses
			if len(a.Pods)+len(a.Nodes)+len(a.Machines)+len(a.LoadBalancers) == 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: Cluster %s has no spec.addresses: nothing that it has will be believed\n", found.Name)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Until %s, in the other cluster:\n", end.UTC().Format(time.RFC3339))
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "nephele join "+i.String())
			return err
		},
	}
	f := cmd.Flags()
	cluster.Register(f)
	f.DurationVar(&lifetime, "for", time.Hour, fmt.Sprintf("how long the token can be used, from %s to %s", enroll.ShortestInvitation, enroll.LongestInvitation))
	f.StringVar(&server, "server", "", "HOST:PORT by which the member reaches this hub; several with commas between them")
	f.StringSliceVar(&bounds.Pods, "pods", nil, "CIDRs of the Pods of a new Cluster")
	f.StringSliceVar(&bounds.Nodes, "nodes", nil, "CIDRs of the Nodes of a new Cluster")
	f.StringSliceVar(&bounds.Machines, "machines", nil, "CIDRs of the virtual machines and hosts of a new Cluster")
	f.StringSliceVar(&bounds.LoadBalancers, "load-balancers", nil, "CIDRs of load balancers in front of Services that a new Cluster exports")
	f.StringArrayVar(&seen, "seen-as", nil, "the addresses by which receivers see the Pods of a new Cluster: CIDR=Routable, CIDR=Node, or CIDR=ADDRESS,ADDRESS; may be repeated")
	f.StringSliceVar(&visible, "visible-namespaces", nil, "Namespaces of a new Cluster whose workloads the own policies of other members may name: names, or beginnings followed by *")
	f.StringVar(&profile, "profile", "", "NAMESPACE/NAME of a ClusterProfile whose labels a new Cluster gets, where --label does not say otherwise")
	f.StringToStringVar(&labels, "label", nil, "labels of a new Cluster, by which policies select it")
	return cmd
}

// withProfile adds the labels of a ClusterProfile to labels.
func withProfile(ctx context.Context, c client.Reader, profile string, labels map[string]string) (map[string]string, error) {
	all, err := profileLabels(ctx, c, profile)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, labels)
	return all, nil
}

// parseSeen reads what the flag --seen-as says.
func parseSeen(all []string) ([]setv1alpha1.SeenAs, error) {
	var out []setv1alpha1.SeenAs
	for _, text := range all {
		to, as, ok := strings.Cut(text, "=")
		if _, err := netip.ParsePrefix(to); err != nil || !ok {
			return nil, fmt.Errorf("%q: want CIDR=Routable, CIDR=Node, or CIDR=ADDRESS,ADDRESS", text)
		}
		s := setv1alpha1.SeenAs{To: to, As: setv1alpha1.Seen(as)}
		if s.As != setv1alpha1.SeenRoutable && s.As != setv1alpha1.SeenNode {
			s.As, s.Addresses = setv1alpha1.SeenEgress, strings.Split(as, ",")
			for _, a := range s.Addresses {
				if _, err := netip.ParseAddr(a); err != nil {
					return nil, fmt.Errorf("%q: want Routable, Node or addresses, not %q", text, a)
				}
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// published is where this hub says that it is reached, if that is of use to others.
func published(ctx context.Context, c client.Client) (string, error) {
	at, err := enroll.PublishedServer(ctx, c)
	if err != nil {
		return "", fmt.Errorf("find where members reach this hub: %w", err)
	}
	host, _, _ := net.SplitHostPort(at)
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		return "", errors.New("give --server HOST:PORT, by which members reach this hub; nothing here says it")
	}
	return at, nil
}

// clusterNamed returns a Cluster, and makes it if there is none.
func clusterNamed(ctx context.Context, c client.Client, name string, spec setv1alpha1.ClusterSpec, labels map[string]string) (*setv1alpha1.Cluster, error) {
	found := &setv1alpha1.Cluster{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, found)
	given := len(spec.Addresses.Pods)+len(spec.Addresses.Nodes)+len(spec.Addresses.Machines)+len(spec.SeenAs)+len(labels) > 0
	switch {
	case meta.IsNoMatchError(err):
		return nil, errors.New("this cluster does not know Clusters: apply the definitions of api/generated first")
	case err == nil && given:
		return nil, fmt.Errorf("there is a Cluster %s: its labels and addresses are changed with kubectl edit cluster.set.nephele.io %s", name, name)
	case apierrors.IsNotFound(err):
		found = &setv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: spec}
		err = c.Create(ctx, found)
	}
	if err != nil {
		return nil, fmt.Errorf("make Cluster %s: %w", name, err)
	}
	return found, nil
}

func newListCommand(to connect) *cobra.Command {
	var cluster terminal.Cluster
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the members of the set",
		Long: `Show the members of the set: whether they are heard of, what is known of them, how many policies are for them, and what of their claims is not believed.

Exit codes: 0 all are connected and all is believed; 1 something needs attention.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := to.reach(&cluster)
			if err != nil {
				return err
			}
			var list setv1alpha1.ClusterList
			if err := c.List(cmd.Context(), &list); err != nil {
				return fmt.Errorf("list Clusters: %w", err)
			}
			return show(cmd.OutOrStdout(), &list, time.Now())
		},
	}
	cluster.Register(cmd.Flags())
	return cmd
}

// show prints the members.
func show(out io.Writer, list *setv1alpha1.ClusterList, now time.Time) error {
	if len(list.Items) == 0 {
		_, err := fmt.Fprintln(out, "There are no members. nephele cluster token NAME lets one join.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tVERSION\tHEARD\tENTITIES\tPOLICIES\tREFUSED")
	trouble := false
	var remarks []string
	for i := range list.Items {
		c := &list.Items[i]
		state := status.ClusterState(c)
		trouble = trouble || state != "InSync" && state != "Syncing"
		heard := "never"
		if c.Status.LastHeard != nil {
			heard = max(now.Sub(c.Status.LastHeard.Time), 0).Truncate(time.Second).String() + " ago"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\n", c.Name, state, cmp.Or(c.Status.Version, "-"), heard, c.Status.Entities, c.Status.Policies, c.Status.Refused)
		if refused := meta.FindStatusCondition(c.Status.Conditions, setv1alpha1.ClusterClaimsRefused); refused != nil && refused.Status == metav1.ConditionTrue {
			trouble = true
			remarks = append(remarks, fmt.Sprintf("%s: not believed: %s", c.Name, terminal.PrintableLines(refused.Message)))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range remarks {
		fmt.Fprintln(out, r)
	}
	if trouble {
		return terminal.ErrNo
	}
	return nil
}
