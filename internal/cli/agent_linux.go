package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/cloud/handover"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/enforcer"
)

const (
	defaultAgentState  = "/var/lib/nephele/agent"
	defaultAgentSocket = "/run/nephele/agent.sock"
	defaultAgentLog    = "/var/log/nephele/policies.log"
	// agentAnswerLimit bounds the wait for the agent on this host.
	agentAnswerLimit = 10 * time.Second
	// endpointsLimit bounds the wait for the addresses of the API server. Nothing else is done
	// meanwhile.
	endpointsLimit = time.Second
)

// agentFlags are those of the agent.
type agentFlags struct {
	cluster         clusterFlags
	server          string
	node            string
	kubeNode        string
	podRanges       []string
	stateDir        string
	failsafe        []string
	keepEstablished bool
	verbose         bool
	logFile         string
	logFormat       string
	probes          []string
	config          string
	resolvers       []string
}

func (f *agentFlags) register(flags *pflag.FlagSet) {
	f.cluster.register(flags)
	flags.StringVar(&f.server, "policy-kubeconfig", "", "kubeconfig file that leads to the server of computed policies, if that is not the cluster's own API server")
	flags.BoolVar(&f.keepEstablished, "keep-established", false, "let established connections go on that a changed policy does not allow any more")
	flags.StringArrayVar(&f.probes, "probe", nil, `what must be reachable from this host whatever policies say: "tcp HOST:PORT" or a URL; may be repeated. `+
		"A change with which it is not for a minute is taken back")
	flags.StringVar(&f.logFile, "log-file", defaultAgentLog, "file for what policies want logged; it is rotated at 100 MB, and three old ones are kept. Empty: nothing is logged")
	flags.StringVar(&f.logFormat, "log-format", string(agent.LogJSON), `form of its lines: "json", or "antrea" as Antrea Agents write them`)
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log more")
	f.registerHost(flags)
}

// registerHost adds the flags that are needed without a server as well.
func (f *agentFlags) registerHost(flags *pflag.FlagSet) {
	flags.StringArrayVar(
		&f.resolvers,
		"resolver",
		nil,
		"address of a resolver that the host asks, besides those that its configuration names; may be repeated. Answers of others tell nothing about names in policies",
	)
	flags.StringVar(
		&f.config,
		"config",
		"",
		"YAML file that says what flags say, by the names externalNode, node, podCIDRs, kubeconfig, policyKubeconfig, stateDir, failsafe, probes, resolvers, keepEstablished, logFile, logFormat; flags that are given count before it",
	)
	flags.StringVar(&f.kubeNode, "node", "", "the Kubernetes Node that this host is, whose Pods are guarded as well; in the place of --external-node")
	flags.StringArrayVar(&f.podRanges, "pod-cidr", nil, "addresses of Pods of this Node, besides spec.podCIDRs of the Node; may be repeated. Who has one of them and is no Pod that is known is cut off")
	flags.StringVar(&f.node, "external-node", "", "the ExternalNode that this host is: NAMESPACE/NAME")
	flags.StringVar(&f.stateDir, "state-dir", defaultAgentState, "directory for what was enforced last")
	flags.StringArrayVar(&f.failsafe, "failsafe", nil, `flow that no policy can cut, such as "in tcp 22 10.0.0.0/8"; may be repeated`)
}

// policies returns the configuration for the server of computed policies. It is read anew each
// time, because credentials are replaced.
func (f *agentFlags) policies() (*rest.Config, error) {
	if f.server == "" {
		return f.cluster.config()
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", f.server)
	if err != nil {
		return nil, fmt.Errorf("--policy-kubeconfig %s: %w", f.server, err)
	}
	return cfg, nil
}

// flows returns how to find the failsafe flows.
func (f *agentFlags) flows() (agent.Flows, error) {
	out := agent.Flows{LookUp: agent.LookUp, Servers: f.servers, Resolvers: f.findResolvers}
	for _, text := range f.failsafe {
		flow, err := agent.ParseFailsafe(text)
		if err != nil {
			return out, fmt.Errorf("--failsafe: %w", err)
		}
		out.Own = append(out.Own, flow)
	}
	return out, nil
}

func (f *agentFlags) servers() ([]string, error) {
	var out []string
	var errs []error
	for _, config := range []func() (*rest.Config, error){f.policies, f.cluster.config} {
		cfg, err := config()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if host := cfg.Host; !strings.Contains(host, "://") {
			out = append(out, "https://"+host)
		} else {
			out = append(out, host)
		}
	}
	if f.kubeNode != "" {
		behind, err := f.behindService()
		out, errs = append(out, behind...), append(errs, err)
	}
	return out, errors.Join(errs...)
}

// behindService returns where the API server of the Node's cluster really is. An agent in a Pod
// reaches it by its Service, and rules see what that is translated to.
func (f *agentFlags) behindService() ([]string, error) {
	cfg, err := f.cluster.config()
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = endpointsLimit
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	slice, err := c.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(context.Background(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("where the API server is: %w", err)
	}
	var out []string
	for _, e := range slice.Endpoints {
		for _, a := range e.Addresses {
			for _, p := range slice.Ports {
				if p.Port != nil {
					out = append(out, "https://"+net.JoinHostPort(a, strconv.Itoa(int(*p.Port))))
				}
			}
		}
	}
	return out, nil
}

// findResolvers returns the resolvers of the host: those of its configuration, also where a
// resolver on the host asks them.
func (f *agentFlags) findResolvers() ([]netip.Addr, error) {
	var out []netip.Addr
	for _, text := range f.resolvers {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("--resolver %q: want an address", text)
		}
		out = append(out, a.Unmap())
	}
	for _, file := range []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"} {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		out = append(out, agent.ParseResolvers(string(text))...)
	}
	return out, nil
}

// key is the enforcer key.
func (f *agentFlags) key() string { return cmp.Or(f.kubeNode, f.node) }

func (f *agentFlags) checkKey() error {
	namespace, name, ok := strings.Cut(f.node, "/")
	switch {
	case f.kubeNode != "" && f.node != "":
		return errors.New("give --node or --external-node, and not both")
	case f.kubeNode != "":
		if strings.Contains(f.kubeNode, "/") {
			return fmt.Errorf("--node %q: want the name of a Node", f.kubeNode)
		}
	case !ok || namespace == "" || name == "" || strings.Contains(name, "/"):
		return fmt.Errorf("--external-node %q: want NAMESPACE/NAME", f.node)
	}
	return nil
}

func (f *agentFlags) options(log logr.Logger) (agent.Options, error) {
	if err := f.checkKey(); err != nil {
		return agent.Options{}, err
	}
	flows, err := f.flows()
	if err != nil {
		return agent.Options{}, err
	}
	store, err := agent.OpenStore(f.stateDir)
	if err != nil {
		return agent.Options{}, err
	}
	table, err := kernel.Open(kernel.DefaultTable)
	if err != nil {
		return agent.Options{}, err
	}
	return agent.Options{Key: f.key(), Table: table, Store: store, Failsafe: flows.All, Clock: clock.RealClock{}, Log: log}, nil
}

// agentCommands are the commands of hosts with an agent.
func agentCommands() []*cobra.Command {
	var f agentFlags
	var socket string
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Guard this host: enforce what is computed for its ExternalNode or Node, by nftables",
		Long: `Guard this host: enforce what is computed for its ExternalNode, by nftables; or with --node, what is computed for the Pods
of a Kubernetes Node and the Node itself, beside whatever CNI plugin there is.

The rules are in a table of their own, "inet nephele". They stay in force when the agent stops, and without a server; they
go by "nephele agent uninstall". Flows that no policy can cut: to the servers that the agent talks to, to the host's
resolvers, DHCP, and those given with --failsafe.`,
		Example: `  nephele agent --external-node vms/web-1 --kubeconfig /etc/nephele/kubeconfig --failsafe "in tcp 22 10.0.0.0/8"
  nephele agent --node worker-1`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.readConfig(cmd.Flags()); err != nil {
				return err
			}
			return runAgent(cmd.Context(), &f, socket, NewLogger(cmd.ErrOrStderr(), f.verbose))
		},
	}
	f.register(cmd.Flags())
	cmd.PersistentFlags().StringVar(&socket, "socket", defaultAgentSocket, "where the agent answers on this host")
	cmd.AddCommand(newAgentLoadCommand(), newAgentStatusCommand(&socket), newAgentExplainCommand(&socket), newAgentReleaseCommand(&socket), newAgentUninstallCommand())
	return []*cobra.Command{cmd}
}

func runAgent(ctx context.Context, f *agentFlags, socket string, log logr.Logger) error {
	o, err := f.options(log)
	if err != nil {
		return err
	}
	if _, err := f.policies(); err != nil {
		return fmt.Errorf("finding the server of computed policies: %w", err)
	}
	policies, err := enforcer.NewClient(enforcer.ClientOptions{Config: f.policies})
	if err != nil {
		return err
	}
	o.Follower = enforcer.Follower{Source: policies, Clock: clock.RealClock{}, Random: mathrand.Float64, Quiet: controller.AntreaQuiet, Log: log.WithName("enforcer")}
	reporter := enforcer.NewReporter(enforcer.ReporterOptions{Client: policies, Clock: clock.RealClock{}, Random: mathrand.Float64, Log: log.WithName("reports")})
	o.Reports = reporter
	o.Info, o.Statistics = agentInfo(f), policies.Statistics
	if !f.keepEstablished {
		connections, err := kernel.OpenConnections()
		if err != nil {
			return err
		}
		connections.Through = f.kubeNode != ""
		o.Connections = connections
	}
	if f.kubeNode != "" {
		if o.Pods, err = f.pods(log); err != nil {
			return err
		}
	} else {
		o.Yield = yield(f)
		o.Names = agent.NewNames(agent.NamesOptions{Resolvers: f.findResolvers, LookUp: agent.LookUp, Clock: clock.RealClock{}})
	}
	if o.PacketLog, err = f.packetLog(); err != nil {
		return err
	}
	var probes []func(context.Context) error
	for _, text := range f.probes {
		probe, err := agent.ParseProbe(text)
		if err != nil {
			return fmt.Errorf("--probe: %w", err)
		}
		probes = append(probes, probe)
	}
	o.Probe = agent.Probes(probes...)
	a := agent.New(o)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts := []func(context.Context) error{a.Run, reporter.Start, func(ctx context.Context) error { return a.Serve(ctx, socket) }}
	if path := f.cluster.kubeconfig; path != "" && f.kubeNode == "" {
		parts = append(parts, func(ctx context.Context) error { keepEnrolled(ctx, path, clock.RealClock{}, log); return nil })
	}
	if o.Names != nil {
		parts = append(parts, func(ctx context.Context) error { learnNames(ctx, o.Names, log); return nil })
	}
	if l := o.PacketLog; l != nil {
		l.Rule = a.LoggedRule
		parts = append(parts, func(ctx context.Context) error { writeLog(ctx, l, log); return nil })
	}
	failed := make(chan error, len(parts))
	for _, run := range parts {
		go func() {
			failed <- run(ctx)
			cancel()
		}()
	}
	var errs []error
	for range parts {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}

// agentInfo fills in the AntreaAgentInfo of the host, which the controller has made.
func agentInfo(f *agentFlags) func(context.Context, *agent.Status) error {
	return func(ctx context.Context, s *agent.Status) error {
		cfg, err := f.cluster.config()
		if err != nil {
			return err
		}
		c, err := newClient(cfg)
		if err != nil {
			return err
		}
		namespace, name, _ := strings.Cut(f.node, "/")
		if f.kubeNode != "" {
			name = f.kubeNode
		}
		info := &v1beta1.AntreaAgentInfo{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, info); apierrors.IsNotFound(err) {
			return agent.ErrNoInfo // of a server that makes none, or not yet
		} else if err != nil {
			return err
		}
		fillAgentInfo(info, s, namespace, name, metav1.Now())
		return c.Update(ctx, info)
	}
}

// yield agrees with the controller that the host isolates no other directions any more. Both write
// the AntreaAgentInfo as they have read it, so that of the two, to open here and to open in the
// cloud, only one can be.
func yield(f *agentFlags) func(context.Context, agent.Isolated) (bool, error) {
	return func(ctx context.Context, isolates agent.Isolated) (bool, error) {
		cfg, err := f.cluster.config()
		if err != nil {
			return false, err
		}
		c, err := newClient(cfg)
		if err != nil {
			return false, err
		}
		_, name, _ := strings.Cut(f.node, "/")
		info := &v1beta1.AntreaAgentInfo{}
		err = c.Get(ctx, client.ObjectKey{Name: name}, info)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
			return true, nil // then nothing was ever left to this agent
		}
		if err != nil {
			return false, err
		}
		_, directions, _ := strings.Cut(info.Annotations[cloudv1alpha1.AnnotationCloudLetsIn], " ")
		open, keeps := handover.ParseDirections(directions), handover.Directions(isolates)
		if open.And(keeps) != open {
			return false, nil
		}
		if info.Annotations[cloudv1alpha1.AnnotationIsolates] == keeps.String() {
			return true, nil
		}
		metav1.SetMetaDataAnnotation(&info.ObjectMeta, cloudv1alpha1.AnnotationIsolates, keeps.String())
		return true, c.Update(ctx, info)
	}
}

func fillAgentInfo(info *v1beta1.AntreaAgentInfo, s *agent.Status, namespace, name string, now metav1.Time) {
	info.Version = buildVersion().Version
	if info.Labels == nil {
		info.Labels = map[string]string{}
	}
	if namespace != "" {
		info.Labels[cloudv1alpha1.LabelAllowIsolates], info.Labels[cloudv1alpha1.LabelHeedsCloud] = "true", "true"
		metav1.SetMetaDataAnnotation(&info.ObjectMeta, cloudv1alpha1.AnnotationIsolates, handover.Directions{s.IsolatedIngress, s.IsolatedEgress}.String())
		info.NodeRef = v1beta1.ObjectReference{Kind: "ExternalNode", Namespace: namespace, Name: name}
	} else {
		info.NodeRef = v1beta1.ObjectReference{Kind: "Node", Name: name}
		if s.Pods != nil {
			info.LocalPodNum, info.NodeSubnets = int32(s.Pods.Known), s.Pods.Ranges
		}
	}
	info.NetworkPolicyControllerInfo = v1beta1.NetworkPolicyControllerInfo{
		NetworkPolicyNum: int32(len(s.Policies)), AddressGroupNum: int32(s.AddressGroups), AppliedToGroupNum: int32(s.AppliedToGroups),
	}
	condition := func(t v1beta1.AgentConditionType, ok bool, reason, message string) v1beta1.AgentCondition {
		c := v1beta1.AgentCondition{Type: t, Status: metav1.ConditionTrue, LastHeartbeatTime: now}
		if !ok {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason, message
		}
		return c
	}
	healthy := s.State == agent.StateEnforcing || s.State == agent.StateKept
	trouble := s.Error
	if s.State == agent.StateReleased {
		trouble = "released on the host until " + s.ReleasedUntil.UTC().Format(time.RFC3339)
	}
	info.AgentConditions = []v1beta1.AgentCondition{
		condition(v1beta1.AgentHealthy, healthy, string(s.State), trouble),
		condition(v1beta1.ControllerConnectionUp, s.Connected, "NotInSync", s.ServerError),
	}
}

func newAgentLoadCommand() *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Enforce what was enforced last, and end; for the time before there is a network",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.readConfig(cmd.Flags()); err != nil {
				return err
			}
			o, err := f.options(NewLogger(cmd.ErrOrStderr(), false))
			if err != nil {
				return err
			}
			flows, err := f.flows()
			if err != nil {
				return err
			}
			// There is no network to look anything up.
			flows.Servers = func() ([]string, error) { return nil, nil }
			if f.kubeNode != "" {
				o.Pods = agent.KeptPods()
			}
			o.Failsafe, o.Reports, o.Follower.Clock = flows.All, nil, o.Clock
			return agent.New(o).Load(cmd.Context())
		},
	}
	f.registerHost(cmd.Flags())
	return cmd
}

func newAgentUninstallCommand() *cobra.Command {
	var stateDir string
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the rules and what was kept; nothing is enforced on this host from then on",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			table, err := kernel.Open(kernel.DefaultTable)
			if err != nil {
				return err
			}
			if err := table.Delete(); errors.Is(err, kernel.ErrOwned) {
				return errors.New("the agent is running: stop it first")
			} else if err != nil {
				return err
			}
			store, err := agent.OpenStore(stateDir)
			if err != nil {
				return err
			}
			return store.Remove()
		},
	}
	cmd.Flags().StringVar(&stateDir, "state-dir", defaultAgentState, "directory for what was enforced last")
	return cmd
}

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
			printAgentStatus(cmd.OutOrStdout(), &s)
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", `"json" for programs`)
	return cmd
}

func printAgentStatus(w io.Writer, s *agent.Status) {
	fmt.Fprintf(w, "%s: %s\n", printable(s.Key), s.State)
	if !s.ReleasedUntil.IsZero() {
		fmt.Fprintf(w, "released until %s\n", s.ReleasedUntil.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(w, "in the kernel: %d rules, %d elements of sets; others can change them: %t; repaired %d times\n", s.Rules, s.Elements, !s.Owned, s.Repairs)
	fmt.Fprintf(w, "isolated: ingress %t, egress %t; connections ended by changes: %d\n", s.IsolatedIngress, s.IsolatedEgress, s.ConnectionsCut)
	if s.Pods != nil {
		fmt.Fprintf(w, "Pods: %d, of %d kinds; closed but for them: %s\n", s.Pods.Known, s.Pods.Classes, cmp.Or(strings.Join(s.Pods.Ranges, " "), "nothing, because it is not known where Pods have their addresses"))
		for _, p := range s.Pods.NotEnforceable {
			fmt.Fprintf(w, "NOT enforceable on Pod %s\n", printable(p))
		}
	}
	for _, f := range s.Foreign {
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
	var names agent.NamesStatus
	if s.Names != nil {
		names = *s.Names
		fmt.Fprintf(w, "domain names: %d, with %d addresses; %d more were too many for their name\n", names.Names, names.Addresses, names.Refused)
	}
	var logged agent.PacketLogStatus
	if s.Log != nil {
		logged = *s.Log
		fmt.Fprintf(w, "log: %d lines; %d packets came too fast\n", logged.Lines, logged.Lost)
	}
	for _, e := range []struct{ what, text string }{
		{"names", names.Error}, {"the answers of resolvers", names.Unheard}, {"the log", logged.Error}, {"what is to be logged", logged.Unread},
		{"server", s.ServerError}, {"kernel", s.Error}, {"disk", s.StoreError}, {"failsafe flows", s.FailsafeError}, {"connections", s.ConnectionsError}, {"agent info", s.InfoError},
		{"firewalls of others", s.ForeignError}, {"Pods", s.PodsError}, {"the probes", s.ProbeError},
	} {
		if e.text != "" {
			fmt.Fprintf(w, "trouble with %s: %s\n", e.what, printable(e.text))
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
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", a.Action, printable(a.By))
			if !a.Allowed {
				return ErrNo
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
		q.Protocol = nft.TCP
	case "udp":
		q.Protocol = nft.UDP
	case "sctp":
		q.Protocol = nft.SCTP
	case "icmp":
		q.Protocol, q.Type = nft.ICMP, 8
		if q.Peer.Is6() {
			q.Protocol, q.Type = nft.ICMPv6, 128
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
		case !s.ReleasedUntil.IsZero(), s.Rules == 0 && s.WaitsForCloud == "":
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
