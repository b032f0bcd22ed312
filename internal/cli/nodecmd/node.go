package nodecmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

const (
	// statusLimit bounds what an agent reports of its network.
	statusLimit = 64 << 10
	// silent is after how long an agent that says nothing is reported.
	silent = 3 * time.Minute
)

// Needs are what the commands take from the others.
type Needs struct {
	// Register adds the flags that say which cluster it is; Client returns it when they are known.
	Register func(*pflag.FlagSet)
	Client   func() (client.Client, error)
	Now      func() time.Time
}

// Command is "nephele node".
func Command(n Needs) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "See how the networks of Nodes stand",
		Args:  terminal.NoSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	n.Register(cmd.PersistentFlags())
	cmd.AddCommand(n.list(), n.check())
	return cmd
}

// Node is what is known of a Node.
type Node struct {
	Name string `json:"name"`
	// Network is nil where another CNI plugin makes it.
	Network *network.Status `json:"network,omitempty"`
	Pods    int32           `json:"pods"`
	Version string          `json:"version,omitempty"`
	// Troubles are what is wrong, each in a sentence.
	Troubles []string `json:"troubles,omitempty"`
}

func (n Needs) list() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the Nodes with an agent: mode, MTU, tunnels, addresses, Pods, health",
		Example: "  nephele node list\n  nephele node list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("--output %q: want json, or nothing for text", output)
			}
			c, err := n.Client()
			if err != nil {
				return err
			}
			list, err := read(cmd.Context(), c, n.Now())
			if err != nil {
				return err
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(list)
			}
			return printList(cmd.OutOrStdout(), list)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", `"json" for programs`)
	return cmd
}

// read returns the Nodes with an agent, by their names.
func read(ctx context.Context, c client.Client, now time.Time) ([]Node, error) {
	var infos v1beta1.AntreaAgentInfoList
	if err := c.List(ctx, &infos); err != nil {
		return nil, fmt.Errorf("reading what agents tell: %w", err)
	}
	var out []Node
	for i := range infos.Items {
		if infos.Items[i].NodeRef.Kind == "Node" {
			out = append(out, nodeOf(&infos.Items[i], now))
		}
	}
	slices.SortFunc(out, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// nodeOf is what an agent tells.
func nodeOf(info *v1beta1.AntreaAgentInfo, now time.Time) Node {
	out := Node{Name: info.NodeRef.Name, Pods: info.LocalPodNum, Version: info.Version}
	if text := info.Annotations[cloudv1.AnnotationNetwork]; text != "" {
		var s network.Status
		if err := parse(text, &s); err != nil {
			out.Troubles = append(out.Troubles, fmt.Sprintf("what its agent tells of its network cannot be read: %v", err))
		} else {
			out.Network = &s
			out.Troubles = append(out.Troubles, s.Problems...)
			if s.Services != nil && s.Services.Trouble != "" {
				out.Troubles = append(out.Troubles, s.Services.Trouble)
			}
			if s.Error != "" {
				out.Troubles = append(out.Troubles, s.Error)
			}
		}
	}
	for _, c := range info.AgentConditions {
		if c.Type != v1beta1.AgentHealthy {
			continue
		}
		switch since := now.Sub(c.LastHeartbeatTime.Time); {
		case since > silent:
			out.Troubles = append(out.Troubles, fmt.Sprintf("its agent has said nothing for %s", since.Round(time.Second)))
		case c.Status != metav1.ConditionTrue:
			out.Troubles = append(out.Troubles, strings.TrimSpace("its agent is not healthy: "+c.Reason+" "+c.Message))
		}
	}
	return out
}

// parse reads what an agent reports of its network.
func parse(text string, into *network.Status) error {
	if len(text) > statusLimit {
		return fmt.Errorf("it has %d bytes, more than %d", len(text), statusLimit)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return err
	}
	if !slices.Contains(network.Modes(), into.Mode) {
		return fmt.Errorf("mode %q is none", terminal.Printable(string(into.Mode)))
	}
	return nil
}

func printList(w io.Writer, list []Node) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tMODE\tMTU\tVXLAN\tDIRECT\tENCRYPTED\tPODS\tADDRESSES\tHEALTH")
	for _, n := range list {
		health := "ok"
		if len(n.Troubles) > 0 {
			health = terminal.Printable(n.Troubles[0])
		}
		if more := len(n.Troubles) - 1; more > 0 {
			health += fmt.Sprintf(" (and %d more: nephele node check %s)", more, terminal.Printable(n.Name))
		}
		mode, mtu, tunnels, direct, encrypted, used := network.PolicyOnly, "-", "-", "-", "-", "-"
		if s := n.Network; s != nil {
			mode, mtu, tunnels, direct = s.Mode, fmt.Sprint(s.MTU), fmt.Sprint(s.Tunnels), fmt.Sprint(s.Direct)
			var words []string
			for _, u := range s.Ranges {
				words = append(words, fmt.Sprintf("%d/%d", u.Used, u.Addresses))
			}
			if s.Encrypted != nil {
				encrypted = fmt.Sprint(s.Encrypted.Nodes)
			}
			used = cmp.Or(strings.Join(words, " "), "-")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", terminal.Printable(n.Name), mode, mtu, tunnels, direct, encrypted, n.Pods, used, health)
	}
	return t.Flush()
}

func (n Needs) check() *cobra.Command {
	return &cobra.Command{
		Use:   "check NODE",
		Short: "Say what is wrong with the network of a Node",
		Long: `Say what is wrong with the network of a Node: whether its agent answers, whether it gives Pods addresses and which are left, which other
Nodes are not reached, whether other CNI plugins or routes are in the way, and which addresses nobody of the API has.

Exit codes: 0 nothing is wrong; 1 something is; 2 the input is wrong.`,
		Example: "  nephele node check worker-1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := n.Client()
			if err != nil {
				return err
			}
			lines, err := findings(cmd.Context(), c, args[0], n.Now())
			if err != nil {
				return err
			}
			wrong := false
			for _, l := range lines {
				fmt.Fprintln(cmd.OutOrStdout(), terminal.Printable(l.String()))
				wrong = wrong || l.wrong
			}
			if wrong {
				return terminal.ErrNo
			}
			return nil
		},
	}
}

// finding is a line of a check.
type finding struct {
	wrong bool
	text  string
}

func (f finding) String() string {
	if f.wrong {
		return "FAIL  " + f.text
	}
	return "ok    " + f.text
}

// findings are what there is to say of a Node.
func findings(ctx context.Context, c client.Client, name string, now time.Time) ([]finding, error) {
	var node corev1.Node
	if err := c.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
		return nil, fmt.Errorf("reading Node %s: %w", name, err)
	}
	var info v1beta1.AntreaAgentInfo
	if err := c.Get(ctx, types.NamespacedName{Name: name}, &info); apierrors.IsNotFound(err) {
		return []finding{{true, fmt.Sprintf("no agent has told anything of Node %s: look at the Pods of DaemonSet nephele-node-agent", name)}}, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading what the agent of Node %s tells: %w", name, err)
	}
	n := nodeOf(&info, now)
	var out []finding
	for _, t := range n.Troubles {
		out = append(out, finding{true, t})
	}
	s := n.Network
	if s != nil && s.Encrypted != nil {
		e := s.Encrypted
		out = append(out, finding{false, fmt.Sprintf("%d Nodes are reached by %s (%s), UDP port %d; encrypted by %s", e.Nodes, e.Encryption.By(), terminal.Printable(string(e.Encryption)), e.Port, e.By())})
	}
	if s == nil || s.Mode == network.PolicyOnly {
		return append(out, finding{false, "another CNI plugin makes the network of the Node (networkPolicyOnly)"}), nil
	}
	out = append(out, finding{false, fmt.Sprintf("mode %s, MTU of Pods %d, %d Nodes by VXLAN and %d without", s.Mode, s.MTU, s.Tunnels, s.Direct)})
	if s.Services != nil {
		out = append(out, finding{false, fmt.Sprintf("Services are reached by %d addresses and ports", s.Services.Places)})
	} else {
		out = append(out, finding{false, "kube-proxy leads to Services"})
	}
	for _, u := range s.Ranges {
		full := u.Used >= u.Addresses
		out = append(out, finding{full, fmt.Sprintf("%s: %d of %d addresses are used, %d rest", u.Range, u.Used, u.Addresses, u.Resting)})
	}
	kept, err := leftOver(ctx, c, name, s)
	if err != nil {
		return nil, err
	}
	return append(out, kept...), nil
}

// leftOver compares how many addresses are used with the Pods that the API knows.
func leftOver(ctx context.Context, c client.Client, name string, s *network.Status) ([]finding, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.MatchingFields{"spec.nodeName": name}); err != nil {
		return nil, fmt.Errorf("reading the Pods of Node %s: %w", name, err)
	}
	var out []finding
	for _, u := range s.Ranges {
		known := 0
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.Spec.HostNetwork {
				continue
			}
			if slices.ContainsFunc(p.Status.PodIPs, func(ip corev1.PodIP) bool {
				a, err := netip.ParseAddr(ip.IP)
				return err == nil && u.Range.Contains(a.Unmap())
			}) {
				known++
			}
		}
		// Pods come and go while this is read.
		more := u.Used - known
		out = append(out, finding{more > maxBetween, fmt.Sprintf("%s: %d addresses are used, and %d Pods have one as the API says", u.Range, u.Used, known)})
	}
	return out, nil
}

// maxBetween is how many more addresses may be used than the API knows: of Pods that begin or end.
const maxBetween = 10
