package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/limits"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/controller/traffic"
	"github.com/nephele-io/nephele/internal/flows/archive"
	"github.com/nephele-io/nephele/internal/flows/live"
)

// RegisterEnforcers adds --enforcer-access, which sets Enforcers of the options.
func RegisterEnforcers(f *pflag.FlagSet, o *controller.APIOptions) {
	o.Enforcers = apiserver.OwnKey
	f.Var(
		&o.Enforcers,
		"enforcer-access",
		"the enforcers that callers of the computed API may act for: own-key (themselves, and those that a rule with verb enforce names) or any (all, as with Antrea)",
	)
}

// RegisterInstance adds the flags of the options of an instance.
func RegisterInstance(f *pflag.FlagSet, o *controller.InstanceOptions) {
	f.DurationVar(&o.Heartbeat, "instance-heartbeat", controller.DefaultHeartbeat, "within this time the mark of this instance on every "+
		"claimed network moves, so that a copy of the cluster finds out that it is one; after a crash the next instance "+
		"waits for as long")
	f.DurationVar(&o.ClaimPause, "instance-claim-pause", controller.DefaultClaimPause, "how long a claim of a network must have stood before it is read again "+
		"and trusted; longer than another controller takes from having read that the network is free to having claimed it")
}

// RegisterPropagation adds the flag that says how long clouds take to put into force what they have
// accepted, where an account does not say.
func RegisterPropagation(f *pflag.FlagSet, d *time.Duration) {
	*d = controller.DefaultPropagation
	f.Var(&propagation{d}, "propagation", "how long clouds take to put into force what their API has accepted, for accounts without spec.propagationSeconds: "+
		"a call waits so long after those that it relies on; 0 means that none waits")
}

// propagation is a duration within the bounds of spec.propagationSeconds.
type propagation struct{ *time.Duration }

func (p *propagation) Type() string { return "duration" }

func (p *propagation) String() string {
	if p.Duration == nil {
		return ""
	}
	return p.Duration.String()
}

// Set takes a duration such as 3s.
func (p *propagation) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > mostPropagation {
		return fmt.Errorf("want 0s to %s, such as 3s", mostPropagation)
	}
	*p.Duration = d
	return nil
}

// mostPropagation is what the schema of spec.propagationSeconds allows.
const mostPropagation = 5 * time.Minute

// RegisterFlows adds the flags that say how much is kept of what agents have reported of
// connections.
func RegisterFlows(f *pflag.FlagSet, o *traffic.Options) {
	f.Var(&megabytes{&o.Memory, live.DefaultBytes}, "flow-memory", "megabytes of memory at most for the connections that agents have reported within the last hour; the oldest go first")
	f.StringVar(&o.Dir, "flow-dir", "", "folder that keeps them for longer, as Parquet files; empty for none")
	f.StringVar(&o.Log, "flow-log", "", "file for a line of JSON for all that they report, for other systems to read; it is rotated at 100 MB, and three old ones are kept")
	f.StringVar(&o.Syslog, "flow-syslog", "", "server of syslog for all that they report, as JSON: udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT")
	f.StringVar(&o.IPFIX, "flow-ipfix", "", "collector of IPFIX for all that they report, with the elements of Antrea: udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT")
	f.StringVar(&o.OTLP, "flow-otlp", "", "collector of OpenTelemetry for all that they report, as log records over HTTP: http:// or https://HOST:PORT[/PATH]")
	o.OTLPHeaders = cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_LOGS_HEADERS"), os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"))
	f.Var(&megabytes{&o.Disk, archive.DefaultBytes}, "flow-disk", "megabytes of its files at most; the oldest go first")
}

// megabytes is a number of bytes that is given in megabytes.
type megabytes struct {
	bytes *int
	// otherwise is what 0 bytes stand for.
	otherwise int
}

// String implements pflag.Value.
func (m *megabytes) String() string {
	if m.bytes == nil {
		return "0"
	}
	return strconv.Itoa(cmp.Or(*m.bytes, m.otherwise) >> 20)
}

// Type implements pflag.Value.
func (*megabytes) Type() string { return "int" }

// Set implements pflag.Value.
func (m *megabytes) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1<<20 {
		return errors.New("want megabytes, 1 to 1048576")
	}
	*m.bytes = n << 20
	return nil
}

// RegisterAuditLog adds the flag of the file for the record of changes. Its default is what the
// file is.
func RegisterAuditLog(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "audit-log", *file, "file for the record of all calls that change something in a cloud; it is rotated. Empty for the log alone")
}

// servingFlags say which callers may use this process, how much, and which Secrets it reads.
type servingFlags struct {
	api              *controller.APIOptions
	secretNamespaces []string
}

func (f *servingFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(
		&f.api.WebhookClientCA,
		"webhook-client-ca",
		"",
		"PEM file with the authority of the client certificate that kube-apiserver shows to the webhooks; empty lets everybody ask them",
	)
	flags.StringSliceVar(&f.api.WebhookClientNames, "webhook-client-names", nil, "common names of the certificates of --webhook-client-ca that may ask; empty means all")
	l := &f.api.Limits
	flags.IntVar(&l.Connections, "api-connections", limits.DefaultConnections, "how many connections --api holds at most")
	flags.IntVar(&l.ConnectionsPerAddress, "api-connections-per-address", limits.DefaultConnectionsPerAddress, "how many of them one address may have")
	flags.IntVar(&l.WatchesPerKey, "api-watches-per-key", limits.DefaultWatchesPerKey, "how many watches of one kind --api holds for one enforcer key at most")
	flags.IntVar(&l.WatchesPerClient, "api-watches-per-client", limits.DefaultWatchesPerClient, "how many watches one client may have")
	flags.StringSliceVar(&f.secretNamespaces, "secret-namespaces", nil, "namespaces whose Secrets accounts may name; only these are read and watched; empty means all")
}

// apply checks the flags and puts them where they count.
func (f *servingFlags) apply(o *controller.Options) error {
	l := f.api.Limits
	if least := min(l.Connections, l.ConnectionsPerAddress, l.WatchesPerKey, l.WatchesPerClient); least < 1 {
		return fmt.Errorf("--api-connections, --api-connections-per-address, --api-watches-per-key, --api-watches-per-client: got %d, want at least 1", least)
	}
	if len(f.api.WebhookClientNames) > 0 && f.api.WebhookClientCA == "" {
		return errors.New("--webhook-client-names needs --webhook-client-ca: without an authority a name proves nothing")
	}
	for _, ns := range f.secretNamespaces {
		if wrong := validation.IsDNS1123Label(ns); len(wrong) > 0 {
			return fmt.Errorf("--secret-namespaces: %q is not the name of a namespace: %s", ns, wrong[0])
		}
	}
	o.SecretNamespaces = f.secretNamespaces
	return nil
}
