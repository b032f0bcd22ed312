package agentcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/fqdn"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/packetlog"
	"github.com/nephele-io/nephele/internal/agent/pods"
	"github.com/nephele-io/nephele/internal/agent/services"
	"github.com/nephele-io/nephele/internal/agent/traffic"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/enroll/credential"
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

// agentFlags are the flags of the agent.
type agentFlags struct {
	// version is that of the program.
	version         string
	cluster         terminal.Cluster
	server          string
	node            string
	kubeNode        string
	podRanges       []string
	stateDir        string
	failsafe        []string
	keepEstablished bool
	verbose         bool
	ownLogFormat    terminal.LogFormat
	logFile         string
	logFormat       string
	probes          []string
	config          string
	resolvers       []string
	dnsService      string
	metrics         string
	recordFlows     bool
	forwarded       bool
	cni             cniFlags
	network         networkFlags
	// seal opens what encrypts; nil in a program that cannot.
	seal *Sealing
}

// defaultDNSService is what the DNS of a cluster is called, whatever serves it.
const defaultDNSService = "kube-system/kube-dns"

// collectPercent is by how much the heap of an agent grows before garbage is collected. Most of it
// is what the agent knows and stays, and the memory is needed by what the host is there for.
const collectPercent = 15

// defaultAgentMetrics is where metrics are served. Nobody else than the host reaches it.
const defaultAgentMetrics = "127.0.0.1:10351"

func (f *agentFlags) register(flags *pflag.FlagSet) {
	f.cluster.Register(flags)
	flags.StringVar(&f.server, "policy-kubeconfig", "", "kubeconfig file that leads to the server of computed policies, if that is not the cluster's own API server")
	flags.BoolVar(&f.keepEstablished, "keep-established", false, "let established connections go on that a changed policy does not allow any more")
	flags.StringArrayVar(&f.probes, "probe", nil, `what must be reachable from this host whatever policies say: "tcp HOST:PORT" or a URL; may be repeated. `+
		"A change with which it is not for a minute is taken back")
	flags.StringVar(&f.logFile, "log-file", defaultAgentLog, "file for what policies want logged; it is rotated at 100 MB, and three old ones are kept. Empty: nothing is logged")
	flags.StringVar(&f.logFormat, "log-format", string(packetlog.JSON), `form of its lines: "json", or "antrea" as Antrea Agents write them`)
	flags.BoolVar(&f.recordFlows, "flows", true, `tell the controller of every connection and of what is denied, for "nephele flows"`)
	flags.StringVar(&f.metrics, "metrics", defaultAgentMetrics, "HOST:PORT of the Prometheus metrics, over HTTP and for every client that reaches it; 0 for none")
	flags.StringVar(&f.dnsService, "dns-service", defaultDNSService, "with --node, the Service NAMESPACE/NAME that Pods ask about names; empty for none. The answers of its endpoints are trusted")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log more")
	terminal.RegisterLogFormat(flags, "own-log-format", &f.ownLogFormat)
	f.cni.register(flags)
	f.network.register(flags)
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
	flags.BoolVar(&f.forwarded, "forwarded", false, "on a host that routes and is no Node, judge what only passes through it, too: what comes to published ports as what comes to the host, "+
		"by the port that was asked, and what comes from its bridges, as from containers, as what the host sends")
	flags.StringVar(
		&f.config,
		"config",
		"",
		"YAML file that says what flags say, by the names externalNode, node, podCIDRs, kubeconfig, policyKubeconfig, stateDir, failsafe, probes, resolvers, dnsService, keepEstablished, logFile, logFormat, metrics, flows, forwarded; flags that are given count before it",
	)
	flags.StringVar(&f.kubeNode, "node", "", "the Kubernetes Node that this host is, whose Pods are guarded as well; in the place of --external-node")
	flags.StringArrayVar(&f.podRanges, "pod-cidr", nil, "addresses of Pods of this Node, besides spec.podCIDRs of the Node; may be repeated. Packets of one of them that belongs to no known Pod are dropped")
	flags.StringVar(&f.node, "external-node", "", "the ExternalNode that this host is: NAMESPACE/NAME (default: the one that its certificate names)")
	flags.StringVar(&f.stateDir, "state-dir", defaultAgentState, "directory for what was enforced last")
	flags.StringArrayVar(&f.failsafe, "failsafe", nil, `flow that no policy can cut, such as "in tcp 22 10.0.0.0/8"; may be repeated`)
}

// policies returns the configuration for the server of computed policies. It is read anew each
// time, because credentials are replaced.
func (f *agentFlags) policies() (*rest.Config, error) {
	if f.server == "" {
		return f.cluster.Config()
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
	for _, config := range []func() (*rest.Config, error){f.policies, f.cluster.Config} {
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

// findResolvers returns the resolvers of the host: the ones in its configuration, also where a
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

// certified is the ExternalNode that the credentials are of, if they say so.
func (f *agentFlags) certified() string {
	for _, path := range []string{f.server, f.cluster.Kubeconfig} {
		file, err := clientcmd.LoadFromFile(path)
		if err != nil {
			continue // the user of the file reports what is wrong with it
		}
		at := file.Contexts[file.CurrentContext]
		if at == nil || file.AuthInfos[at.AuthInfo] == nil {
			continue
		}
		if held, ok := credential.ParseCertificate(file.AuthInfos[at.AuthInfo].ClientCertificateData); ok {
			return held.Host.String()
		}
	}
	return ""
}

// key is the enforcer key.
func (f *agentFlags) key() string { return cmp.Or(f.kubeNode, f.node) }

func (f *agentFlags) checkKey() error {
	if f.key() == "" {
		f.node = f.certified()
	}
	namespace, name, ok := strings.Cut(f.node, "/")
	switch {
	case f.kubeNode != "" && f.forwarded:
		return errors.New("--forwarded: it is for hosts; on a Node what passes through is that of Pods, which is judged by their policies")
	case f.kubeNode != "" && f.node != "":
		return errors.New("give --node or --external-node, and not both")
	case f.kubeNode != "":
		if strings.Contains(f.kubeNode, "/") {
			return fmt.Errorf("--node %q: want the name of a Node", f.kubeNode)
		}
	case f.node == "":
		return errors.New("say which ExternalNode this host is: --external-node NAMESPACE/NAME; the credentials are no certificate that does")
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
	store, err := disk.Open(f.stateDir)
	if err != nil {
		return agent.Options{}, err
	}
	table, err := kernel.Open(kernel.DefaultTable)
	if err != nil {
		return agent.Options{}, err
	}
	connections, err := conntrack.Open()
	if err != nil {
		return agent.Options{}, err
	}
	connections.Through = f.kubeNode != "" || f.forwarded
	table.Adopt = func() {
		if err := connections.Adopt(); err != nil {
			log.Error(err, "Not all connections are known that are older than the rules; where policies isolate, some may be dropped until this host speaks")
		}
	}
	return agent.Options{Key: f.key(), Table: table, Connections: connections, Store: store, Failsafe: flows.All, Forwarded: f.forwarded, Clock: clock.RealClock{}, Log: log}, nil
}

// agentCommand is the agent, with the commands of its host below it.
func agentCommand(version string, seal *Sealing) *cobra.Command {
	f := agentFlags{version: version, seal: seal}
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
		Args: terminal.NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.readConfig(cmd.Flags()); err != nil {
				return err
			}
			log, _ := f.ownLogFormat.New(cmd.ErrOrStderr(), f.verbose)
			return runAgent(cmd.Context(), &f, socket, log)
		},
	}
	f.register(cmd.Flags())
	cmd.PersistentFlags().StringVar(&socket, "socket", defaultAgentSocket, "where the agent answers on this host")
	cmd.AddCommand(newAgentLoadCommand(), newAgentStatusCommand(&socket), newAgentExplainCommand(&socket))
	cmd.AddCommand(newAgentReleaseCommand(&socket), newAgentUninstallCommand(version), newAgentEnrollCommand(), newAgentUnchainCommand(&socket), newAgentRenewKeyCommand(&socket))
	return cmd
}

func runAgent(ctx context.Context, f *agentFlags, socket string, log logr.Logger) error {
	unlock, err := lockState(f.stateDir)
	if err != nil {
		return err
	}
	defer unlock()
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
	counted := enforcer.NewMetrics()
	o.Follower = enforcer.Follower{
		Source: policies, Clock: clock.RealClock{}, Random: mathrand.Float64, Quiet: enforcer.AntreaQuiet, Pack: true, Metrics: counted, Log: log.WithName("enforcer"),
	}
	reporter := enforcer.NewReporter(enforcer.ReporterOptions{Client: policies, Clock: clock.RealClock{}, Random: mathrand.Float64, Metrics: counted, Log: log.WithName("reports")})
	o.Reports = reporter
	var told skew
	o.Info, o.Statistics = agentInfo(f, &told), policies.Statistics
	o.Skew, o.Settings = told.get, kernel.Settings{Proc: "/proc/sys"}
	o.KeepEstablished = f.keepEstablished
	resolvers, follow := f.findResolvers, []func(context.Context){}
	var ofNode *cluster
	if f.kubeNode != "" {
		cluster, err := f.ofNode()
		if ofNode = cluster; err != nil {
			return err
		}
		if o.Pods, err = f.pods(cluster, policies, log); err != nil {
			return err
		}
		o.Services = services.FollowFrontends(cluster)
		o.Computed, o.Essential = policies.KnowsPod, f.cni.essential
		if o.Network, err = f.makesNetwork(cluster, log); err != nil {
			return err
		}
		leaving, err := f.egresses(cluster, o.Network, policies, log)
		if err != nil {
			return err
		}
		if leaving != nil {
			follow = append(follow, leaving.Run)
		}
		switch {
		case f.network.mode == string(network.PolicyOnly):
		case f.network.services == servicesOwn:
			o.Balancing = services.NewBalancing(f.kubeNode, cluster)
		default:
			o.Balancing = services.NewHostPorts(f.kubeNode)
		}
		chained, err := f.cni.chaining(socket, log)
		if err != nil {
			return err
		}
		if chained != nil && f.network.mode != string(network.PolicyOnly) {
			chained.to.Entry.Network, chained.ready = true, o.Network.Ready
		}
		if chained != nil {
			o.Plugin, o.Unchain, follow = chained.trouble, chained.leave, append(follow, chained.run)
		}
		behind, err := f.clusterResolvers(cluster)
		if err != nil {
			return err
		}
		if behind != nil {
			resolvers, follow = withCluster(resolvers, behind), append(follow, behind.Run)
		}
	} else {
		if f.network.mode != string(network.PolicyOnly) {
			return fmt.Errorf("--network-mode %s is for Nodes: give --node", f.network.mode)
		}
		if f.network.encryption != string(network.NoEncryption) {
			return fmt.Errorf("--network-encryption %s is for Nodes: give --node", f.network.encryption)
		}
		o.Yield = yield(f)
	}
	o.Names = fqdn.New(fqdn.Options{Resolvers: resolvers, LookUp: agent.LookUp, Clock: clock.RealClock{}})
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
	if f.recordFlows {
		o.Traffic = traffic.New(f.kubeNode != "" || f.forwarded, clock.RealClock{})
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectPercent)
	}
	a := agent.New(o)
	if ofNode != nil {
		follow = append(follow, f.traces(ofNode, a, log).Run, f.captures(ofNode, log).Run, f.latency(ofNode, policies.Latency, log).Run)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts := []func(context.Context) error{a.Run, reporter.Start, func(ctx context.Context) error { return a.Serve(ctx, socket) }}
	if f.metrics != "" && f.metrics != "0" {
		parts = append(parts, func(ctx context.Context) error { serveMetrics(ctx, f.metrics, log, a.Metrics(), counted); return nil })
	}
	if path := f.cluster.Kubeconfig; path != "" && f.kubeNode == "" {
		parts = append(parts, func(ctx context.Context) error {
			keepEnrolled(ctx, renewer{path}, clock.RealClock{}, log)
			return nil
		})
	}
	for _, run := range append(follow, func(ctx context.Context) { learnNames(ctx, o.Names, log) }) {
		parts = append(parts, func(ctx context.Context) error { run(ctx); return nil })
	}
	if o.PacketLog != nil {
		o.PacketLog.Rule = a.LoggedRule
	}
	if o.Traffic != nil {
		o.Traffic.Judge = a
		parts = append(parts, func(ctx context.Context) error {
			recordTraffic(ctx, o.Traffic, f.key(), policies.Traffic, log)
			return nil
		})
	}
	if o.PacketLog != nil || o.Traffic != nil {
		parts = append(parts, func(ctx context.Context) error { followLog(ctx, o.PacketLog, o.Traffic, log); return nil })
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

func newAgentLoadCommand() *cobra.Command {
	f := agentFlags{}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Enforce what was enforced last, and end; for the time before there is a network",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.readConfig(cmd.Flags()); err != nil {
				return err
			}
			unlock, err := lockState(f.stateDir)
			if err != nil {
				return err
			}
			defer unlock()
			o, err := f.options(terminal.NewLogger(cmd.ErrOrStderr(), false))
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
				o.Pods, o.Services = pods.Kept(), services.KeptFrontends()
			}
			o.Failsafe, o.Reports, o.Follower.Clock = flows.All, nil, o.Clock
			return agent.New(o).Load(cmd.Context())
		},
	}
	f.registerHost(cmd.Flags())
	return cmd
}
