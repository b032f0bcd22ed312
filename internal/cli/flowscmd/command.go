package flowscmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/flows"
	"github.com/nephele-io/nephele/internal/flows/judge"
)

// Needs are what the command takes from the others.
type Needs struct {
	// Register adds the flags that say from where policies and clouds are read, and Read reads
	// them.
	Register func(*pflag.FlagSet)
	Read     func(*cobra.Command) (*explain.Computation, error)
	// Printable makes text that came from elsewhere fit for a terminal, and Window breaks lines
	// where there is no room for them.
	Printable func(string) string
	Window    func(io.Writer) io.Writer
	Now       func() time.Time
	After     func(time.Duration) <-chan time.Time
	// Ask returns what has the controller of the cluster answer.
	Ask func(*cobra.Command) (Asker, error)
}

// options are the flags.
type options struct {
	logs             []string
	from, to         string
	port             uint16
	policy           string
	since            string
	denied, accepted bool
	differs          bool
	affected         bool
	minutes          bool
	rules, unused    bool
	limit            int
	output           string
	follow           bool
}

// Command returns the command.
func Command(n Needs) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "flows [--logs FILE_OR_DIR... [-f FILE_OR_DIR... --snapshot FILE_OR_DIR]] [--from END] [--to END] [--follow] [-o json]",
		Short: "Show the traffic that was seen, each connection with the policy that decided it",
		Long: `Flows says of every connection that was seen which end began it, what became of it, and which policy decided: the rule of a
policy, the policies that isolate a direction, a failsafe flow, or the machine's own security groups.

Without --logs it asks the controller what the agents of hosts and Nodes have seen within the last hour, as of a few seconds ago;
--follow goes on with what is new. DIFFERS then says "Leaks" where the kernel let pass what the rules in force drop, and "MayBeOld"
where the connection may be older than these.

With --logs it reads flow logs, which know machines without agents.

--logs names files and folders: VPC flow logs of AWS, as "aws s3 sync" brings them, in text or Parquet, compressed or not, with
whichever fields; and flow logs of virtual networks of Azure, as Network Watcher keeps them. Fields that would make the answer better are named, with the format that has them all.

Policies and clouds are read as by "nephele explain": with -f and --snapshot from files, else from the cluster and its clouds. They
are what holds now. A connection that was seen before a policy changed is judged by the policy as it is.

DIFFERS says where the traffic is not as policies and groups say. "Leaks": it was accepted and should have been dropped. "Cut": it
was dropped and should have been let through. "MayBeOld": it was accepted and should have been dropped, but its beginning was not
seen, and clouds let running connections go on. "RefusedByCloud": the cloud dropped it for a reason of its own.

THEN says what would be another once all policies are enforced as they stand, which is the answer to "what would this policy have
cut": "cut", "open", or "?" where it cannot be told.

--rules tells instead how often each rule decided, of policies and of the groups that machines hold themselves; --unused those that
decided nothing, which is true of the window that was seen and no more.

The exit code is 0; with --differs or --affected it is 1 if there are such flows; 2 if the question cannot be answered.`,
		Example: `  nephele flows --to shop/db --since 10m
  nephele flows --denied --follow
  nephele flows -f policies/ -f account.yaml --snapshot ./my-account --logs ./flow-logs --to shop/db-1
  nephele flows --logs ./flow-logs --denied --since 1h -o json
  nephele flows --logs ./flow-logs --differs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd, n) },
	}
	flags := c.Flags()
	flags.StringArrayVar(&o.logs, "logs", nil, "file or folder of flow logs; may be repeated")
	flags.StringVar(&o.from, "from", "", "only what this end began: a name or a part of one, an address or a range")
	flags.StringVar(&o.to, "to", "", "only what was sent to this end")
	flags.Uint16Var(&o.port, "port", 0, "only what was sent to this port")
	flags.StringVar(&o.policy, "policy", "", "only what this policy decided: NAMESPACE/NAME or NAME")
	flags.StringVar(&o.since, "since", "", "only what was seen since: how long ago, such as 1h or 7d, or a time such as 2026-03-01T12:00:00Z")
	flags.BoolVar(&o.denied, "denied", false, "only what was dropped")
	flags.BoolVar(&o.accepted, "accepted", false, "only what was let through")
	flags.BoolVar(&o.differs, "differs", false, "only what is not as policies and groups say")
	flags.BoolVar(&o.affected, "affected", false, "only what would not be the same once all policies are enforced as they stand")
	flags.BoolVar(&o.rules, "rules", false, "in place of flows, tell how often each rule of policies and groups decided, and when last")
	flags.BoolVar(&o.unused, "unused", false, "only the rules that decided nothing that was seen")
	flags.BoolVar(&o.minutes, "minutes", false, "tell every minute apart")
	flags.IntVar(&o.limit, "limit", 1000, "show at most so many lines; 0 means all")
	flags.StringVarP(&o.output, "output", "o", "table", "table or json")
	flags.BoolVarP(&o.follow, "follow", "F", false, "without --logs, go on with what is new")
	n.Register(flags)
	return c
}

// filter is what rows have to be.
type filter struct {
	options
	since    time.Time
	from, to end
}

// end is what an end has to be: in a range of addresses, or of a name.
type end struct {
	prefix netip.Prefix
	name   string
}

func parseEnd(text string) end {
	if p, err := netip.ParsePrefix(text); err == nil {
		return end{prefix: p.Masked()}
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return end{prefix: netip.PrefixFrom(a, a.BitLen())}
	}
	return end{name: strings.ToLower(text)}
}

func (e end) is(x *analysis.End, a netip.Addr) bool {
	switch {
	case e.prefix.IsValid():
		return e.prefix.Contains(a)
	case e.name == "":
		return true
	}
	return strings.Contains(strings.ToLower(nameOf(x)), e.name) || x.VM != nil && strings.Contains(strings.ToLower(x.VM.ID), e.name)
}

// nameOf is how people call an end, and how they may ask for it: NAMESPACE/NAME where it has one.
func nameOf(x *analysis.End) string { return strings.TrimPrefix(x.Title, "VM ") }

func (o *options) filter(now time.Time) (*filter, error) {
	switch {
	case o.denied && o.accepted:
		return nil, errors.New("--denied and --accepted: give one of them")
	case o.output != "table" && o.output != "json":
		return nil, fmt.Errorf("--output %q: want table or json", o.output)
	case o.limit < 0:
		return nil, fmt.Errorf("--limit %d: want 0 or more", o.limit)
	}
	since, err := ParseSince("--since", o.since, now)
	if err != nil {
		return nil, err
	}
	return &filter{*o, since, parseEnd(o.from), parseEnd(o.to)}, nil
}

// ParseSince reads what a flag says: how long ago, in the units of Go and days, or a time.
func ParseSince(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	unit, number := time.Duration(1), text
	if days, is := strings.CutSuffix(text, "d"); is {
		unit, number = 24, days+"h"
	}
	d, err := time.ParseDuration(number)
	if err != nil || d <= 0 || d > 10*365*24*time.Hour {
		return time.Time{}, fmt.Errorf("%s %q: want how long ago, such as 30m, 12h or 7d, or a time such as 2026-03-01T12:00:00Z", flag, text)
	}
	return now.Add(-d * unit), nil
}

// Flow is one line of the answer: what was seen of connections that are alike.
type Flow struct {
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Interface saw it, and Direction is which way the first packet crossed it.
	Interface string `json:"interface"`
	Direction string `json:"direction"`
	// Client and Server are the addresses of the ends.
	Client   netip.Addr `json:"client"`
	Server   netip.Addr `json:"server"`
	Protocol string     `json:"protocol"`
	Port     uint16     `json:"port,omitempty"`
	Accepted bool       `json:"accepted"`
	Guessed  bool       `json:"guessed,omitempty"`
	Midway   bool       `json:"midway,omitempty"`
	// CloudRule is the rule that the cloud says decided, where it does, and CloudACL what holds it.
	CloudRule string `json:"cloudRule,omitempty"`
	CloudACL  string `json:"cloudACL,omitempty"`
	// RefusedBy is why the cloud itself dropped it.
	RefusedBy string `json:"refusedBy,omitempty"`
	// ReplyDropped tells that answers were dropped.
	ReplyDropped bool   `json:"replyDropped,omitempty"`
	Connections  int    `json:"connections"`
	Packets      uint64 `json:"packets"`
	Bytes        uint64 `json:"bytes"`
	ReplyPackets uint64 `json:"replyPackets"`
	ReplyBytes   uint64 `json:"replyBytes"`
	// ClientService and ServerService are the services of the cloud that the addresses belong to.
	ClientService string `json:"clientService,omitempty"`
	ServerService string `json:"serverService,omitempty"`
	judge.Judgement
}

// Answer is what the command prints as JSON.
type Answer struct {
	Flows []Flow `json:"flows"`
	// More is how many flows are not shown.
	More int `json:"more,omitempty"`
	// Counts say what was read, and what was left out.
	Counts Counts   `json:"counts"`
	Notes  []string `json:"notes,omitempty"`
}

// Counts say what was read, and what was left out.
type Counts struct {
	Files       int `json:"files"`
	UnreadFiles int `json:"unreadFiles,omitempty"`
	Records     int `json:"records"`
	BadLines    int `json:"badLines,omitempty"`
	// LostWindows are those in which the cloud did not record some traffic.
	LostWindows int `json:"lostWindows,omitempty"`
	// Placeless are records of which nothing says which way they went.
	Placeless int `json:"placeless,omitempty"`
	Repeated  int `json:"repeated,omitempty"`
	Over      int `json:"over,omitempty"`
	// Differs counts the flows that are not as policies and groups say, by how.
	Differs map[judge.Disagreement]int `json:"differs,omitempty"`
	// Effects counts the flows by what becomes of them once all policies are enforced.
	Effects map[judge.Effect]int `json:"effects"`
}

func (o *options) run(cmd *cobra.Command, n Needs) error {
	if len(o.logs) == 0 {
		return o.live(cmd, n)
	}
	if o.follow {
		return errors.New("--follow: flow logs do not grow while they are read; leave --logs out")
	}
	f, err := o.filter(n.Now())
	if err != nil {
		return err
	}
	if o.rules || o.unused {
		return f.tellRules(cmd, n)
	}
	answer, err := f.answer(cmd, n)
	if err != nil {
		return err
	}
	if o.output == "json" {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		if err := e.Encode(answer); err != nil {
			return err
		}
	} else if err := n.print(cmd, answer); err != nil {
		return err
	}
	if (o.differs || o.affected) && len(answer.Flows) > 0 {
		return n.no()
	}
	return nil
}

func (f *filter) answer(cmd *cobra.Command, n Needs) (*Answer, error) {
	computed, rows, counts, notes, err := n.seen(cmd, f.logs, f.since)
	if err != nil {
		return nil, err
	}
	answer := &Answer{Flows: []Flow{}, Counts: counts, Notes: notes}
	answer.Counts.Differs, answer.Counts.Effects = map[judge.Disagreement]int{}, map[judge.Effect]int{}
	byKey := map[flows.Key]int{}
	j := judge.New(computed)
	for i := range rows {
		r := &rows[i]
		judged := j.Judge(r)
		if !f.takes(r, &judged) {
			continue
		}
		key := r.Key
		if !f.minutes {
			key.Minute = time.Time{}
		}
		at, known := byKey[key]
		if !known {
			at = len(answer.Flows)
			byKey[key] = at
			answer.Flows = append(answer.Flows, flowOf(r, judged))
		}
		answer.Flows[at].add(r)
	}
	for _, x := range answer.Flows {
		if x.Differs != judge.Agrees {
			answer.Counts.Differs[x.Differs]++
		}
		answer.Counts.Effects[x.Effect]++
	}
	slices.SortStableFunc(answer.Flows, func(a, b Flow) int { return b.Last.Compare(a.Last) })
	if f.limit > 0 && len(answer.Flows) > f.limit {
		answer.More = len(answer.Flows) - f.limit
		answer.Flows = answer.Flows[:f.limit]
	}
	return answer, nil
}

// seen reads policies and clouds, and what was seen since a time.
func (n Needs) seen(cmd *cobra.Command, logs []string, since time.Time) (*explain.Computation, []flows.Row, Counts, []string, error) {
	files, err := filesOf(logs)
	if err != nil {
		return nil, nil, Counts{}, nil, err
	}
	computed, err := n.Read(cmd)
	if err != nil {
		return nil, nil, Counts{}, nil, err
	}
	rows, counts, notes, err := rowsOf(cmd.Context(), files, computed, since)
	return computed, rows, counts, notes, err
}

// rowsOf reads the files.
func rowsOf(ctx context.Context, files []string, computed *explain.Computation, since time.Time) ([]flows.Row, Counts, []string, error) {
	addresses := addressesOf(computed)
	sum := flows.NewSummer(func(name string) []netip.Addr { return addresses[name] }, 0)
	old := 0
	read, err := read(ctx, files, func(r *flows.Record) {
		if r.Start.Before(since) {
			old++
			return
		}
		sum.Add(r)
	})
	if err != nil {
		return nil, Counts{}, nil, err
	}
	rows := sum.Take(time.Time{})
	c := sum.Counts()
	counts := Counts{
		Files: read.Files, UnreadFiles: read.Unread, Records: c.Records, BadLines: read.Bad, LostWindows: read.Lost,
		Placeless: c.Placeless, Repeated: c.Twice, Over: c.Over,
	}
	notes := read.Notes
	if c.Records == 0 && old > 0 {
		notes = append(notes, fmt.Sprintf("all %d records are older than --since", old))
	}
	if c.Placeless > 0 {
		notes = append(notes, fmt.Sprintf("%d records are left out: neither the log nor the accounts that were read say which way the packets went", c.Placeless))
	}
	if c.Over > 0 {
		notes = append(notes, fmt.Sprintf("%d records are left out: more than %d connections at once; give fewer files, or --since", c.Over, flows.DefaultTuples))
	}
	if read.Lost > 0 {
		notes = append(notes, fmt.Sprintf("in %d windows the cloud did not record all traffic (SKIPDATA)", read.Lost))
	}
	return rows, counts, notes, nil
}

// addressesOf are the addresses of all interfaces that were read.
func addressesOf(c *explain.Computation) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	for _, a := range c.Objects.Observed {
		for _, s := range a.Snapshots {
			for i := range s.Interfaces {
				out[s.Interfaces[i].ID] = s.Interfaces[i].PrivateIPs
			}
		}
	}
	return out
}

// takes reports whether the answer has the row.
func (f *filter) takes(r *flows.Row, j *judge.Judgement) bool {
	switch {
	case f.denied && r.Accepted, f.accepted && !r.Accepted:
		return false
	case f.differs && j.Differs == judge.Agrees:
		return false
	case f.affected && j.Effect == judge.Unaffected:
		return false
	case f.port != 0 && r.Port != f.port:
		return false
	case f.policy != "" && !concerns(&j.By, f.policy):
		return false
	}
	return f.from.is(&j.From, r.Client) && f.to.is(&j.To, r.Server)
}

// concerns reports whether a policy of the name decides.
func concerns(by *judge.By, name string) bool {
	is := func(p analysis.Policy) bool {
		return !p.Hidden && (p.Name == name || p.Namespace != "" && p.Namespace+"/"+p.Name == name)
	}
	return by.Rule != nil && is(by.Rule.Policy) || slices.ContainsFunc(by.Policies, is)
}

func flowOf(r *flows.Row, j judge.Judgement) Flow {
	return Flow{
		First: r.Minute, Last: r.Minute, Interface: r.Interface, Direction: string(r.Direction), Client: r.Client, Server: r.Server, Protocol: protocolName(r.Protocol),
		Port: r.Port, Accepted: r.Accepted, Guessed: r.Guessed, Midway: r.Midway, RefusedBy: r.Refused, CloudRule: r.Rule, CloudACL: r.ACL, ClientService: r.ClientService,
		ServerService: r.ServerService, Judgement: j,
	}
}

func (x *Flow) add(r *flows.Row) {
	x.Last = r.Minute
	x.Connections += r.Connections
	x.Packets, x.Bytes = x.Packets+r.Packets, x.Bytes+r.Bytes
	x.ReplyPackets, x.ReplyBytes = x.ReplyPackets+r.ReplyPackets, x.ReplyBytes+r.ReplyBytes
	x.ReplyDropped = x.ReplyDropped || r.ReplyDropped
}
