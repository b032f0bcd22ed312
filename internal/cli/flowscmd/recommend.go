package flowscmd

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/flows"
	"github.com/nephele-io/nephele/internal/flows/judge"
	"github.com/nephele-io/nephele/internal/flows/recommend"
	"github.com/nephele-io/nephele/internal/policy"
)

// recommendOptions are the flags of recommend.
type recommendOptions struct {
	logs     []string
	since    string
	keys     []string
	outside  []string
	egress   bool
	tier     string
	priority float64
	output   string
}

// RecommendCommand returns the command "recommend".
func RecommendCommand(n Needs) *cobra.Command {
	var o recommendOptions
	c := &cobra.Command{
		Use:   "recommend NAMESPACE [--since TIME] [--logs FILE_OR_DIR... [-f FILE_OR_DIR... --snapshot FILE_OR_DIR]] [-o DIR]",
		Short: "Write the smallest policies that allow the traffic that was seen",
		Long: `Recommend writes policies for the machines and Pods of a namespace that allow what was seen and nothing else. Without --logs it asks
the controller what the agents of hosts and Nodes have seen; --since reaches back as far as it keeps flows. With --logs it reads flow
logs as "nephele flows" does.

Machines with the same labels share a policy: the labels of --by, or the label with which the traffic takes the fewest
rules. Other ends are named by their labels, or by address; more than 32 addresses of the Internet are everybody there, and that is said.

The policies are staged (annotation nephele.io/stage: plan): nothing enforces them until the annotation goes. Each says on what it
rests. Before they are written it is proven, by the evaluator of "nephele explain", that they cut nothing that was seen.

What was not seen is not allowed: what happens once a month is not in the log of a week. Machines of which nothing was seen are named.
Of a Pod that is gone another one of the same workload stands in, if there is one; what agents call a leak is not allowed.

Machines that share labels share what is allowed: what was dropped between some of them may open. That is told, too.

The exit code is 0 if policies are written that cut and open nothing that was seen, 1 if they do or nothing was seen, 2 if it cannot be
told.`,
		Example: `  nephele recommend shop --since 7d -o recommended/
  nephele recommend shop -f account.yaml --snapshot ./my-account --logs ./flow-logs --since 7d -o recommended/
  nephele recommend shop --logs ./flow-logs --by nephe.antrea.io/tag-role --outside 198.51.100.0/24`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, n, args[0]) },
	}
	flags := c.Flags()
	flags.StringArrayVar(&o.logs, "logs", nil, "file or folder of flow logs; may be repeated")
	flags.StringVar(&o.since, "since", "", "only what was seen since: how long ago, such as 7d, or a time such as 2026-03-01T12:00:00Z")
	flags.StringArrayVar(&o.keys, "by", nil, "label that tells machines apart; may be repeated")
	flags.StringArrayVar(&o.outside, "outside", nil, "range that stands for the addresses in it; may be repeated")
	flags.BoolVar(&o.egress, "egress", false, "write rules for what machines send, too")
	flags.StringVar(&o.tier, "tier", "application", "tier of the policies")
	flags.Float64Var(&o.priority, "priority", 100, "priority of the policies")
	flags.StringVarP(&o.output, "output-dir", "o", "", "folder to write a file for each policy into (default: all to the standard output)")
	n.Register(flags)
	return c
}

func (o *recommendOptions) options(namespace string) (recommend.Options, error) {
	out := recommend.Options{Namespace: namespace, Keys: o.keys, Egress: o.egress, Tier: o.tier, Priority: o.priority}
	switch {
	case o.priority < 1 || o.priority > 10000:
		return out, fmt.Errorf("--priority %g: want a number from 1 to 10000", o.priority)
	}
	for _, text := range o.outside {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return out, fmt.Errorf("--outside %q: want a range such as 198.51.100.0/24", text)
		}
		out.Outside = append(out.Outside, p)
	}
	return out, nil
}

func (o *recommendOptions) run(cmd *cobra.Command, n Needs, namespace string) error {
	options, err := o.options(namespace)
	if err != nil {
		return err
	}
	since, err := ParseSince("--since", o.since, n.Now())
	if err != nil {
		return err
	}
	if len(o.logs) == 0 {
		return o.live(cmd, n, options, since)
	}
	computed, rows, _, notes, err := n.seen(cmd, o.logs, since)
	if err != nil {
		return err
	}
	say := func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", n.Printable(fmt.Sprintf(format, args...)))
	}
	for _, note := range notes {
		say("%s", note)
	}
	edges, before := EdgesOf(rows, judge.New(computed))
	for i := range rows {
		if options.Since.IsZero() || rows[i].Minute.Before(options.Since) {
			options.Since = rows[i].Minute
		}
		if end := rows[i].Minute.Add(flows.Window); end.After(options.Until) {
			options.Until = end
		}
	}
	result := recommend.Policies(edges, computed.Ends, options)
	for _, r := range result.Remarks {
		say("%s", r)
	}
	if len(result.Policies) == 0 {
		say("nothing was seen that machines of namespace %s let in", namespace)
		return n.no()
	}
	proof := Prove(computed, result.Policies, rows, before)
	say("machines are told apart by %s: %d policies. Of %d flows that were seen and are allowed today they cut %d; of those that were dropped they open %d",
		strings.Join(result.Keys, " and "), len(result.Policies), proof.Allowed, len(proof.Cut), len(proof.Opened))
	for _, row := range proof.Cut[:min(len(proof.Cut), mostNotes)] {
		say("would be cut: %s", &row)
	}
	for _, row := range proof.Opened[:min(len(proof.Opened), mostNotes)] {
		say("would be opened: %s", &row)
	}
	if err := o.write(cmd, result.Policies); err != nil {
		return err
	}
	if len(proof.Cut)+len(proof.Opened) > 0 {
		return n.no()
	}
	return nil
}

// EdgesOf are what machines let in and send, with the judgement on every row. Of what one end or
// the other may have begun both are told.
func EdgesOf(rows []flows.Row, j *judge.Judge) ([]recommend.Edge, []judge.Judgement) {
	var edges []recommend.Edge
	add := func(r *flows.Row, o *judge.Judgement) {
		own, other := o.To, o.From
		if r.Direction == cloud.Egress {
			own, other = other, own
		}
		if !r.Accepted || o.Differs != judge.Agrees || o.By.Cause == judge.ByFailsafe {
			return
		}
		edges = append(edges, recommend.Edge{
			Machine: refOf(own), Direction: r.Direction, Peer: refOf(other), Address: r.Other(), Protocol: r.Protocol, Port: r.Port, Connections: r.Connections,
			Guessed: r.Guessed,
		})
	}
	judged := make([]judge.Judgement, len(rows))
	for i := range rows {
		judged[i] = j.Judge(&rows[i])
		add(&rows[i], &judged[i])
		if !rows[i].Guessed || rows[i].Port != 0 {
			continue
		}
		turned := rows[i]
		turned.Turn()
		direction := turned.Direction
		if o := j.Judge(&turned); o.Verdict == judge.Allow && turned.Direction == direction {
			add(&turned, &o)
		}
	}
	return edges, judged
}

// refOf is the entity of an end; of others it is empty.
func refOf(e analysis.End) policy.EntityRef {
	for _, kind := range []policy.EntityKind{policy.KindPod, policy.KindExternalEntity, policy.KindNode} {
		if kind.String() == e.Kind {
			return policy.EntityRef{Kind: kind, Namespace: e.Namespace, Name: e.Name}
		}
	}
	return policy.EntityRef{}
}

// Proof is what becomes of what was seen under policies.
type Proof struct {
	// Allowed counts the rows that are allowed today. Cut are the rows among them that the policies
	// would drop, Opened those that are dropped today and that they would let through.
	Allowed     int
	Cut, Opened []flows.Row
}

// Prove judges what was seen once more, with policies besides those that there are.
func Prove(c *explain.Computation, policies []*v1beta1.NetworkPolicy, rows []flows.Row, before []judge.Judgement) Proof {
	j := judge.New(enforcing(c, policies))
	var out Proof
	for i := range rows {
		row := rows[i]
		after := j.Judge(&row)
		if before[i].Wanted == judge.Allow {
			out.Allowed++
			if rows[i].Accepted && after.Wanted == judge.Drop {
				out.Cut = append(out.Cut, row)
			}
		} else if before[i].Wanted == judge.Drop && after.Wanted == judge.Allow {
			out.Opened = append(out.Opened, row)
		}
	}
	return out
}

// enforcing is a computation with staged policies enforced besides all others.
func enforcing(c *explain.Computation, policies []*v1beta1.NetworkPolicy) *explain.Computation {
	with := *c.Objects
	with.Policies = slices.Clone(with.Policies)
	for _, p := range policies {
		p = p.DeepCopy()
		delete(p.Annotations, cloudv1alpha1.AnnotationStage)
		with.Policies = append(with.Policies, p)
	}
	return explain.Compute(&with)
}

// write writes the policies.
func (o *recommendOptions) write(cmd *cobra.Command, policies []*v1beta1.NetworkPolicy) error {
	if o.output != "" {
		if err := os.MkdirAll(o.output, 0o755); err != nil {
			return fmt.Errorf("--output-dir: %w", err)
		}
	}
	for _, p := range policies {
		raw, err := manifestOf(p)
		if err != nil {
			return err
		}
		if o.output == "" {
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "---\n%s", raw); err != nil {
				return err
			}
			continue
		}
		if err := os.WriteFile(filepath.Join(o.output, p.Name+".yaml"), raw, 0o644); err != nil {
			return fmt.Errorf("--output-dir: %w", err)
		}
	}
	return nil
}

// manifestOf is a policy as people write it: without a status.
func manifestOf(p *v1beta1.NetworkPolicy) ([]byte, error) {
	type metadata struct {
		Namespace   string            `json:"namespace"`
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	raw, err := yaml.Marshal(struct {
		APIVersion string                    `json:"apiVersion"`
		Kind       string                    `json:"kind"`
		Metadata   metadata                  `json:"metadata"`
		Spec       v1beta1.NetworkPolicySpec `json:"spec"`
	}{p.APIVersion, p.Kind, metadata{p.Namespace, p.Name, p.Annotations}, p.Spec})
	if err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return raw, nil
}
