package nodecmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

const (
	// traceLook is how often it is looked whether a Traceflow is over, and traceGrace how much
	// longer than its timeout is waited for the controller.
	traceLook  = 200 * time.Millisecond
	traceGrace = 10 * time.Second
)

// traceFlags say what is traced.
type traceFlags struct {
	from, to, protocol, output string
	port                       uint16
	live, dropped, keep        bool
	timeout                    int32
}

// TraceCommand is "nephele traceflow".
func TraceCommand(n Needs) *cobra.Command {
	var f traceFlags
	cmd := &cobra.Command{
		Use:   "traceflow",
		Short: "Send a packet from a Pod, or wait for one, and see what each Node does with it",
		Long: `Send a real packet from a Pod, or with --live wait for one, and see what the rules of each Node do with it, and which policy decides.

It makes a Traceflow, waits for it, prints it and deletes it. What policies say, without a packet, tells "nephele explain".`,
		Example: "  nephele traceflow --from shop/web --to shop/db --protocol TCP --port 5432\n" +
			"  nephele traceflow --from shop/web --to svc/shop/db\n" +
			"  nephele traceflow --from shop/web --to 192.0.2.7 --protocol UDP --port 53 --live --timeout 60",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := f.spec()
			if err != nil {
				return err
			}
			c, err := n.Client()
			if err != nil {
				return err
			}
			return f.trace(cmd.Context(), c, spec, cmd.OutOrStdout())
		},
	}
	n.Register(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "Pod NAMESPACE/NAME that sends; with --live also an address")
	flags.StringVar(&f.to, "to", "", "where to: a Pod NAMESPACE/NAME, a Service svc/NAMESPACE/NAME, or an address")
	flags.StringVar(&f.protocol, "protocol", "", "TCP, UDP or ICMP (default: what the Service has, else ICMP; with --live any)")
	flags.Uint16Var(&f.port, "port", 0, "port of TCP or UDP")
	flags.BoolVar(&f.live, "live", false, "trace the first packet of the live traffic that begins a connection and matches, instead of one that is sent")
	flags.BoolVar(&f.dropped, "dropped-only", false, "with --live, trace the first one that is dropped")
	flags.BoolVar(&f.keep, "keep", false, "leave the Traceflow there")
	flags.Int32Var(&f.timeout, "timeout", v1beta1.DefaultTraceflowSeconds, "seconds after which it ends, 300 at most")
	flags.StringVarP(&f.output, "output", "o", "", `"json" for programs: the Traceflow`)
	return cmd
}

// spec is what the flags say.
func (f *traceFlags) spec() (s v1beta1.TraceflowSpec, err error) {
	if f.output != "" && f.output != "json" {
		return s, fmt.Errorf("--output %q: want json, or nothing for text", f.output)
	}
	if f.timeout < 1 || f.timeout > 300 {
		return s, fmt.Errorf("--timeout %d: want 1 to 300 seconds", f.timeout)
	}
	s = v1beta1.TraceflowSpec{LiveTraffic: f.live, DroppedOnly: f.dropped, Timeout: f.timeout}
	object := func(text string) (namespace, name string, ok bool) {
		namespace, name, ok = strings.Cut(text, "/")
		return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, "/")
	}
	if a, err := netip.ParseAddr(f.from); err == nil {
		s.Source.IP = a.String()
	} else if f.from != "" {
		var ok bool
		if s.Source.Namespace, s.Source.Pod, ok = object(f.from); !ok {
			return s, fmt.Errorf("--from %q: want a Pod NAMESPACE/NAME, or with --live an address", f.from)
		}
	}
	service, isService := strings.CutPrefix(f.to, "svc/")
	var ok bool
	switch a, err := netip.ParseAddr(f.to); {
	case err == nil:
		s.Destination.IP = a.String()
	case isService:
		if s.Destination.Namespace, s.Destination.Service, ok = object(service); !ok {
			return s, fmt.Errorf("--to %q: want svc/NAMESPACE/NAME", f.to)
		}
	case f.to != "":
		if s.Destination.Namespace, s.Destination.Pod, ok = object(f.to); !ok {
			return s, fmt.Errorf("--to %q: want a Pod NAMESPACE/NAME, a Service svc/NAMESPACE/NAME, or an address", f.to)
		}
	}
	switch {
	case !f.live && s.Source.Pod == "":
		return s, errors.New("--from: want the Pod NAMESPACE/NAME that sends; only with --live it may be another")
	case !f.live && f.to == "":
		return s, errors.New("--to: want a Pod NAMESPACE/NAME, a Service svc/NAMESPACE/NAME, or an address")
	case s.Source.Pod == "" && s.Destination.Pod == "":
		return s, errors.New("--from, --to: want a Pod as one of them")
	case f.dropped && !f.live:
		return s, errors.New("--dropped-only: is for --live")
	}
	h, port := &s.Packet.TransportHeader, int32(f.port)
	switch strings.ToUpper(f.protocol) {
	case "TCP":
		h.TCP = &v1beta1.TCPHeader{DstPort: port}
	case "UDP":
		h.UDP = &v1beta1.UDPHeader{DstPort: port}
	case "ICMP":
		h.ICMP = &v1beta1.ICMPEchoRequestHeader{}
	case "":
	default:
		return s, fmt.Errorf("--protocol %q: want TCP, UDP or ICMP", f.protocol)
	}
	switch ports := h.TCP != nil || h.UDP != nil; {
	case port != 0 && !ports:
		return s, errors.New("--port: give --protocol TCP or UDP, too")
	case port == 0 && ports && !f.live && s.Destination.Service == "":
		return s, errors.New("--port: want the port that the packet is sent to")
	}
	return s, nil
}

// trace makes a Traceflow, waits for it and prints it.
func (f *traceFlags) trace(ctx context.Context, c client.Client, spec v1beta1.TraceflowSpec, out io.Writer) error {
	t := &v1beta1.Traceflow{ObjectMeta: metav1.ObjectMeta{GenerateName: "nephele-"}, Spec: spec}
	if err := c.Create(ctx, t); err != nil {
		return fmt.Errorf("making the Traceflow: %w", err)
	}
	if !f.keep {
		defer func() { // also if somebody has interrupted it
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceGrace)
			defer cancel()
			_ = c.Delete(ctx, t) // what is left ends by its timeout
		}()
	}
	limit, cancel := context.WithTimeout(ctx, time.Duration(spec.Timeout)*time.Second+traceGrace)
	defer cancel()
	for t.Status.Phase != v1beta1.TraceflowSucceeded && t.Status.Phase != v1beta1.TraceflowFailed {
		select {
		case <-limit.Done():
			if err := ctx.Err(); err != nil {
				return err
			}
			return fmt.Errorf("the Traceflow does not end (%s): no controller of this release runs", cmp.Or(t.Status.Reason, "it has not begun"))
		case <-time.After(traceLook):
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(t), t); err != nil {
			return fmt.Errorf("reading the Traceflow: %w", err)
		}
	}
	if f.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(t); err != nil {
			return err
		}
	} else {
		printTrace(out, t)
	}
	if t.Status.Phase == v1beta1.TraceflowFailed || !delivered(&t.Status) {
		return terminal.ErrNo
	}
	return nil
}

// delivered reports whether the packet has arrived, or has left for elsewhere.
func delivered(s *v1beta1.TraceflowStatus) bool {
	for i := range s.Results {
		for _, o := range s.Results[i].Observations {
			if o.Action == v1beta1.ActionDelivered || o.Action == v1beta1.ActionForwardedOutOfNetwork {
				return true
			}
		}
	}
	return false
}

// printTrace prints what the Nodes have told, in the order of the way.
func printTrace(w io.Writer, t *v1beta1.Traceflow) {
	p := terminal.Printable
	if a := t.Status.Traced; a != nil {
		fmt.Fprintf(w, "%s -> %s\n", p(cmp.Or(a.SourceIP, "any address")), p(cmp.Or(a.DestinationIP, "any address")))
	}
	for _, first := range []bool{true, false} {
		for i := range t.Status.Results {
			r := &t.Status.Results[i]
			if begins := t.Status.Traced != nil && r.Node == t.Status.Traced.Node; begins != first {
				continue
			}
			fmt.Fprintf(w, "Node %s (%s)\n", p(r.Node), p(r.Role))
			for _, o := range r.Observations {
				fmt.Fprintf(w, "  %s\n", p(observation(&o)))
			}
		}
	}
	if t.Status.Reason != "" {
		fmt.Fprintf(w, "%s: %s\n", t.Status.Phase, p(t.Status.Reason))
	}
}

// observation is one line about what was done with the packet.
func observation(o *v1beta1.TraceflowObservation) string {
	words := []string{string(o.Component)}
	add := func(format, value string) {
		if value != "" {
			words = append(words, fmt.Sprintf(format, value))
		}
	}
	add("(%s)", o.ComponentInfo)
	add("%s", string(o.Action))
	add("by %s", o.NetworkPolicy)
	add("rule %s", o.NetworkPolicyRule)
	add("to Pod %s", o.Pod)
	add("to Node %s", o.TunnelDstIP)
	add("destination is now %s", o.TranslatedDstIP)
	add("source is now %s", o.TranslatedSrcIP)
	return strings.Join(words, " ")
}
