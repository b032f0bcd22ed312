package agentcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

// askAgent sends a request to the agent on this host.
func askAgent(ctx context.Context, socket, method, path string, question, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, agentAnswerLimit)
	defer cancel()
	var body bytes.Buffer
	if question != nil {
		if err := json.NewEncoder(&body).Encode(question); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, &body)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("asking the agent of this host, which may not be running: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		return fmt.Errorf("the agent of this host: %s", strings.TrimSpace(string(text)))
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

func newAgentStatusCommand(socket *string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the agent of this host enforces",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s agent.Status
			if err := askAgent(cmd.Context(), *socket, http.MethodGet, "/status", nil, &s); err != nil {
				return err
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(s)
			}
			printAgentStatus(cmd.OutOrStdout(), &s, terminal.Printable)
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", `"json" for programs`)
	return cmd
}

func printAgentStatus(w io.Writer, s *agent.Status, printable func(string) string) {
	fmt.Fprintf(w, "%s: %s\n", printable(s.Key), s.State)
	if !s.ReleasedUntil.IsZero() {
		fmt.Fprintf(w, "released until %s\n", s.ReleasedUntil.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(w, "in the kernel: %d rules, %d elements of sets; others can change them: %t; repaired %d times\n", s.Kernel.Rules, s.Kernel.Elements, !s.Kernel.Owned, s.Kernel.Repairs)
	fmt.Fprintf(w, "isolated: ingress %t, egress %t; connections ended by changes: %d\n", s.Kernel.IsolatedIngress, s.Kernel.IsolatedEgress, s.Kernel.ConnectionsCut)
	if s.Pods != nil {
		fmt.Fprintf(w, "Pods: %d, of %d kinds; closed but for them: %s\n", s.Pods.Known, s.Pods.Classes, cmp.Or(strings.Join(s.Pods.Ranges, " "), "nothing, because it is not known where Pods have their addresses"))
		if s.Pods.IPVS {
			fmt.Fprintln(w, "kube-proxy is in the mode IPVS: what it leads to Services is judged as it leaves; a Reject of that may be silence to the client")
		}
		for _, p := range s.Pods.Waiting {
			fmt.Fprintf(w, "closed until it is known which policies apply: Pod %s\n", printable(p))
		}
		for _, p := range s.Pods.NotEnforceable {
			fmt.Fprintf(w, "NOT enforceable on Pod %s\n", printable(p))
		}
		for _, text := range s.Pods.Unbound {
			fmt.Fprintf(w, "addresses not bound: %s\n", printable(text))
		}
	}
	printNetwork(w, s.Network, printable)
	for _, f := range s.Host.Failsafe {
		fmt.Fprintf(w, "failsafe, %s: %s\n", f.Direction, printable(f.Name))
	}
	if s.Host.JudgesForwarded {
		fmt.Fprintln(w, "what passes through the host is judged: to its published ports as to the host, from its bridges as from the host")
	}
	if len(s.Host.Forwards) > 0 && s.Pods == nil {
		fmt.Fprintf(w, "the host routes %s; policies do not judge what it only passes on, also to containers behind its published ports\n", strings.Join(s.Host.Forwards, " and "))
	}
	if p := s.Partial(); p != "" {
		fmt.Fprintln(w, printable(p))
	}
	for _, f := range s.Host.Foreign {
		fmt.Fprintf(w, "somebody else's firewall: %s\n", printable(f))
	}
	for _, p := range s.Policies {
		word := "enforced"
		if !p.Enforced {
			word = "NOT enforced"
		}
		name := p.Policy.Name
		if p.Policy.Namespace != "" {
			name = p.Policy.Namespace + "/" + name
		}
		fmt.Fprintf(w, "%s %s generation %d: %s %s\n", p.Policy.Type, printable(name), p.Generation, word, printable(p.Message))
	}
	if s.Names != nil {
		fmt.Fprintf(w, "domain names: %d, with %d addresses; %d more were too many for their name\n", s.Names.Names, s.Names.Addresses, s.Names.Refused)
	}
	if t := s.Traffic; t != nil {
		fmt.Fprintf(w, "flows: %d connections and %d denied packets recorded; %d connections and %d packets not told", t.Connections, t.Denied, t.Losses.Connections, t.Losses.Packets)
		if t.Losses.Overruns > 0 {
			fmt.Fprintf(w, "; the kernel dropped events %d times: %d connections were found afterwards, and the ends of %d are not told", t.Losses.Overruns, t.Found, t.Losses.Ends)
		}
		for _, why := range []string{t.Unread, t.Error} {
			if why != "" {
				fmt.Fprintf(w, "; %s", printable(why))
			}
		}
		fmt.Fprintln(w)
	}
	if s.Log != nil {
		fmt.Fprintf(w, "log: %d lines; %d packets came too fast\n", s.Log.Lines, s.Log.Lost)
	}
	for _, t := range s.Troubles() {
		if t.Text != "" {
			fmt.Fprintf(w, "trouble with %s: %s\n", t.With, printable(t.Text))
		}
	}
}

func newAgentExplainCommand(socket *string) *cobra.Command {
	var from, to, protocol string
	var port uint16
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Say what the rules in force on this host do with a new connection",
		Long: `Say what the rules in force on this host do with a new connection, and which of them decides. Exit code 1: it does not pass.

It asks nothing but our own table; whatever else filters on this host decides besides.`,
		Example: `  nephele agent explain --from 10.0.0.7 --port 443
  nephele agent explain --to 192.0.2.1 --protocol udp --port 53
  nephele agent explain --from 10.244.1.7 --to 10.244.1.9 --port 80`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := agentQuestion(from, to, protocol, port)
			if err != nil {
				return err
			}
			var a agent.Answer
			if err := askAgent(cmd.Context(), *socket, http.MethodPost, "/explain", q, &a); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", a.Action, terminal.Printable(a.By))
			if !a.Allowed {
				return terminal.ErrNo
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "address that connects to this host; on a Node also one that connects to --to")
	cmd.Flags().StringVar(&to, "to", "", "address that this host, or --from, connects to")
	cmd.Flags().StringVar(&protocol, "protocol", "tcp", "tcp, udp, sctp, or icmp for an echo request")
	cmd.Flags().Uint16Var(&port, "port", 0, "destination port")
	return cmd
}

func agentQuestion(from, to, protocol string, port uint16) (agent.Question, error) {
	if from == "" && to == "" {
		return agent.Question{}, errors.New("give --from or --to; on a Node also both")
	}
	text := cmp.Or(from, to)
	peer, err := netip.ParseAddr(text)
	if err != nil {
		return agent.Question{}, fmt.Errorf("%q is not an IP address", text)
	}
	q := agent.Question{Peer: peer.Unmap(), Local: netip.IPv4Unspecified(), Egress: from == "", Port: port}
	if q.Peer.Is6() {
		q.Local = netip.IPv6Unspecified()
	}
	if from != "" && to != "" {
		if q.Local, err = netip.ParseAddr(to); err != nil {
			return agent.Question{}, fmt.Errorf("%q is not an IP address", to)
		}
	}
	switch strings.ToLower(protocol) {
	case "tcp":
		q.Protocol = ruleset.TCP
	case "udp":
		q.Protocol = ruleset.UDP
	case "sctp":
		q.Protocol = ruleset.SCTP
	case "icmp":
		q.Protocol, q.Type = ruleset.ICMP, 8
		if q.Peer.Is6() {
			q.Protocol, q.Type = ruleset.ICMPv6, 128
		}
		return q, nil
	default:
		return q, fmt.Errorf("--protocol %q: want tcp, udp, sctp or icmp", protocol)
	}
	if port == 0 {
		return q, errors.New("--port is missing")
	}
	return q, nil
}

// awaitRelease waits until a release is in force. The agent itself waits for the cloud around the
// host, if that is to guard it in its place, and not for ever.
func awaitRelease(cmd *cobra.Command, socket string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Minute)
	defer cancel()
	told := false
	for {
		var s agent.Status
		if err := askAgent(ctx, socket, http.MethodGet, "/status", nil, &s); err != nil {
			return err
		}
		switch {
		case s.ReleasedUntil.IsZero() && s.WaitsForCloud != "" && !told:
			told = true
			fmt.Fprintln(cmd.OutOrStdout(), "waiting until the cloud guards this host")
		case !s.ReleasedUntil.IsZero(), s.Kernel.Rules == 0 && s.WaitsForCloud == "":
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the release is kept and not in force yet: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func newAgentReleaseCommand(socket *string) *cobra.Command {
	var long time.Duration
	var end bool
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Enforce nothing on this host for a time, in an emergency",
		Long: `Enforce nothing on this host for a time, in an emergency. It is reported to the controller as a failure of every policy. A
restart of the agent or of the host does not end it.`,
		Example: `  nephele agent release --for 1h
  nephele agent release --end`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (long > 0) == end {
				return errors.New("give --for with a time, or --end")
			}
			var s agent.Status
			if err := askAgent(cmd.Context(), *socket, http.MethodPost, "/release", agent.Question{For: long}, &s); err != nil {
				return err
			}
			if end {
				fmt.Fprintln(cmd.OutOrStdout(), "policies are enforced again")
				return nil
			}
			if err := awaitRelease(cmd, *socket); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "nothing is enforced on this host for %s\n", long)
			return nil
		},
	}
	cmd.Flags().DurationVar(&long, "for", 0, "how long, such as 1h")
	cmd.Flags().BoolVar(&end, "end", false, "end a release")
	return cmd
}
