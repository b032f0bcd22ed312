package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/nephele-io/nephele"

// layer is one line of the import rules of docs/ARCHITECTURE.md: what the non-test code below a
// folder may import.
type layer struct {
	folder string
	// own lists the folders of this module that it may import, besides what lies below itself.
	own []string
	// foreign lists the prefixes of other modules' packages that it may import.
	foreign []string
	// noStd lists standard packages that it may not import.
	noStd []string
	why   string
}

var (
	kubernetes = []string{"k8s.io/", "sigs.k8s.io/", "github.com/go-logr/logr", "github.com/prometheus/", "golang.org/x/time/", "golang.org/x/sync/"}
	awsSDK     = []string{"github.com/aws/"}
	azureSDK   = []string{"github.com/Azure/azure-sdk-for-go/sdk/"}
	// pureStd are what pure packages may not import.
	pureStd = []string{"context", "net/http", "os", "log", "log/slog"}
)

// planLayers is why the packages of the planner import only those above them.
const planLayers = "the planner is layers, each importing only those above it"

// simulatedCalls is why the calls of the simulated EC2 do not import what decides about packets.
const simulatedCalls = "a call changes resources, and decides nothing about packets"

// policyLayers is why the packages of the policy engine import only those before them, and
// policyStd is what none of them may import.
const policyLayers = "the policy engine is layers, each importing only those before it"

var policyStd = []string{"context", "log", "log/slog", "net", "net/http", "os", "sync", "sync/atomic", "time"}

// layers is ordered: the first folder that holds a package decides.
var layers = []layer{
	{folder: "api", foreign: []string{"k8s.io/apimachinery/", "sigs.k8s.io/yaml", "k8s.io/kube-openapi/"},
		why: "the contract carries no clients and no logic"},
	{folder: "internal/kinds", own: []string{"api"}, foreign: kubernetes, noStd: pureStd, why: "the table of kinds says what there is, and does nothing"},
	{folder: "internal/table", noStd: pureStd, why: "a container does nothing else"},
	{folder: "internal/policy/slab", own: []string{}, noStd: policyStd, why: policyLayers},
	{folder: "internal/policy/span", own: []string{"internal/policy/slab"}, noStd: policyStd, why: policyLayers},
	{folder: "internal/policy/selectors", own: []string{"internal/policy", "internal/policy/slab", "internal/table"}, noStd: policyStd, why: policyLayers},
	{folder: "internal/policy/translate", own: []string{"internal/policy", "internal/policy/selectors", "internal/policy/slab"}, noStd: policyStd, why: policyLayers},
	{folder: "internal/policy/world", own: []string{"internal/policy", "internal/policy/selectors", "internal/policy/slab", "internal/policy/span", "internal/table"}, noStd: policyStd, why: policyLayers},
	{folder: "internal/policy/evaluate", own: []string{"internal/policy"}, noStd: policyStd, why: policyLayers},
	{folder: "internal/policy/compute", own: []string{"internal/policy", "internal/policy/selectors", "internal/policy/slab", "internal/policy/span", "internal/policy/translate", "internal/policy/world", "internal/table"}, noStd: policyStd, why: policyLayers},
	{folder: "internal/policy", own: []string{"internal/table"}, noStd: policyStd,
		why: "the engine is pure: no I/O, no clock, no goroutines"},
	{folder: "internal/cloud/plan/addrset", noStd: pureStd, why: planLayers},
	{folder: "internal/cloud/plan/flow", own: []string{"internal/cloud", "internal/cloud/plan/addrset"}, noStd: pureStd, why: planLayers},
	{folder: "internal/cloud/plan/model", own: []string{"internal/cloud", "internal/cloud/plan/addrset", "internal/cloud/plan/flow"}, noStd: pureStd, why: planLayers},
	{folder: "internal/cloud/plan/transition", own: []string{"internal/cloud", "internal/cloud/plan/addrset", "internal/cloud/plan/flow", "internal/cloud/plan/model"},
		noStd: pureStd, why: planLayers},
	{folder: "internal/cloud/plan/record", own: []string{"internal/cloud"}, noStd: pureStd, why: planLayers},
	{folder: "internal/cloud/plan/reason", own: []string{"internal/cloud", "internal/cloud/plan/addrset", "internal/cloud/plan/flow"}, noStd: pureStd, why: planLayers},
	{folder: "internal/cloud/plan/intent/intenttest", own: []string{"api", "internal/cloud", "internal/cloud/plan/flow", "internal/cloud/plan/record", "internal/cloud/plan/intent"},
		foreign: []string{"k8s.io/apimachinery/"}, noStd: pureStd, why: "inputs for tests are made of the objects that the planner takes"},
	{folder: "internal/cloud/plan/intent", own: []string{"api", "internal/cloud", "internal/cloud/plan/addrset", "internal/cloud/plan/flow", "internal/cloud/plan/model",
		"internal/cloud/plan/reason", "internal/cloud/plan/record"},
		noStd: pureStd, why: planLayers},
	{folder: "internal/cloud/plan/words", own: []string{"api", "internal/cloud", "internal/cloud/plan/addrset", "internal/cloud/plan/flow", "internal/cloud/plan/reason"},
		noStd: pureStd, why: "only words makes sentences of reasons, and it decides nothing"},
	{folder: "internal/cloud/plan/guard", own: []string{"internal/cloud", "internal/cloud/plan/addrset", "internal/cloud/plan/flow", "internal/cloud/plan/reason", "internal/cloud/plan/record", "internal/cloud/plan/intent"},
		noStd: pureStd, why: planLayers},
	{folder: "internal/cloud/plan/form", own: []string{"internal/cloud", "internal/cloud/plan/addrset", "internal/cloud/plan/flow", "internal/cloud/plan/reason", "internal/cloud/plan/intent",
		"internal/cloud/plan/guard"}, noStd: pureStd, why: planLayers},
	{folder: "internal/cloud/plan/design", own: []string{"api", "internal/cloud", "internal/cloud/plan/addrset", "internal/cloud/plan/flow", "internal/cloud/plan/reason", "internal/cloud/plan/record", "internal/cloud/plan/intent",
		"internal/cloud/plan/guard", "internal/cloud/plan/form"}, noStd: pureStd, why: planLayers},
	{folder: "internal/cloud/plan/report", own: []string{"api", "internal/cloud", "internal/cloud/plan/addrset", "internal/cloud/plan/flow", "internal/cloud/plan/reason", "internal/cloud/plan/record", "internal/cloud/plan/model",
		"internal/cloud/plan/intent", "internal/cloud/plan/guard", "internal/cloud/plan/form", "internal/cloud/signs"}, noStd: pureStd, why: planLayers},
	{folder: "internal/cloud/plan/render", own: []string{"api", "internal/cloud", "internal/cloud/plan", "internal/cloud/plan/flow", "internal/cloud/plan/model"},
		noStd: pureStd, why: "only render makes documents and text of what was planned, and nothing else is in it"},
	{folder: "internal/cloud/plan", own: []string{"api", "internal/cloud", "internal/cloud/signs"}, foreign: []string{"k8s.io/apimachinery/"},
		noStd: pureStd, why: "planning is pure and knows no SDK and no client"},
	{
		folder: "internal/cloud/forecast",
		own:    []string{"internal/cloud", "internal/cloud/plan", "internal/cloud/plan/addrset", "internal/cloud/plan/flow", "internal/cloud/plan/model"},
		noStd:  pureStd,
		why:    "forecasts are pure",
	},
	{folder: "internal/cloud/trace", own: []string{"internal/cloud", "internal/cloud/plan/addrset", "internal/cloud/plan/flow"}, noStd: pureStd,
		why: "what groups do with a packet is told from snapshots alone"},
	{folder: "internal/reach", own: []string{"internal/platform/work", "internal/policy", "internal/policy/evaluate", "internal/cloud", "internal/cloud/trace", "internal/cloud/plan/addrset", "internal/cloud/plan/flow"}, noStd: pureStd,
		why: "which ends reach which is computed without I/O, from what was computed and observed"},
	{folder: "internal/cloud/adopt", own: []string{"api", "internal/cloud"}, foreign: []string{"k8s.io/apimachinery/"}, noStd: pureStd,
		why: "what groups mean as policies is pure, and knows no planner"},
	{folder: "internal/cloud/tenure", noStd: []string{"context", "log", "log/slog", "net", "net/http", "os", "sync", "sync/atomic"},
		why: "the right to write is decided without I/O, clock and goroutines"},
	{folder: "internal/cloud/recordkey", own: []string{"api", "internal/cloud", "internal/cloud/plan", "internal/platform"}, foreign: kubernetes,
		why: "writers of records need the key, and the key knows none of them"},
	{folder: "internal/cloud/handover", noStd: []string{"context", "log", "log/slog", "net", "net/http", "os", "sync", "sync/atomic"},
		why: "the guard of a VM is decided without I/O, clock and goroutines"},
	{folder: "internal/agentinfo", own: []string{"api", "internal/cloud/handover"}, foreign: []string{"k8s.io/apimachinery/"}, noStd: pureStd,
		why: "how old the word of an agent may be is decided in one place, without a clock"},
	{folder: "internal/flows/judge", own: []string{"api", "internal/cloud", "internal/explain", "internal/flows", "internal/policy", "internal/policy/evaluate"}, noStd: pureStd,
		why: "traffic is judged by the evaluator that answers every other question, without I/O"},
	{folder: "internal/flows/recommend", own: []string{"api", "internal/cloud", "internal/cloud/trace", "internal/policy"}, foreign: []string{"k8s.io/apimachinery/"}, noStd: pureStd,
		why: "policies are written of what was seen, without I/O"},
	{folder: "internal/flows/live", own: []string{"api"}, foreign: []string{"k8s.io/apimachinery/"}, noStd: []string{"context", "log", "log/slog", "net", "net/http", "os"},
		why: "what was seen is held without I/O, and time is passed in"},
	{folder: "internal/flows/archive", own: []string{"internal/flows/live"}, foreign: []string{"github.com/parquet-go/parquet-go", "github.com/go-logr/logr", "k8s.io/utils/clock"},
		why: "files know flows, and no callers"},
	{folder: "internal/flows/agentless", own: []string{"api", "internal/cloud", "internal/explain", "internal/flows", "internal/flows/judge", "internal/flows/live", "internal/policy"}, noStd: pureStd,
		why: "what flow logs tell is put into the words of the store without I/O"},
	{folder: "internal/flows/collect", own: []string{"internal/cloud", "internal/cloud/aws/flowlog", "internal/cloud/azure/flowlog", "internal/flows"}, noStd: []string{"log", "log/slog", "net", "net/http", "os"},
		why: "which files are read is decided with a storage and a time that are passed in"},
	{folder: "internal/flows/export/ipfix", own: []string{"internal/flows/live"}, noStd: pureStd, why: "messages are made without I/O"},
	{folder: "internal/flows/export/otlplog", own: []string{"api", "internal/flows/live"}, foreign: []string{"go.opentelemetry.io/proto/otlp/"}, noStd: pureStd,
		why: "log records are made without I/O"},
	{folder: "internal/flows/export", own: []string{"internal/flows/export/ipfix", "internal/flows/export/otlplog", "internal/flows/live"},
		foreign: []string{"github.com/go-logr/logr", "go.opentelemetry.io/proto/otlp/", "google.golang.org/protobuf/", "gopkg.in/natefinch/lumberjack.v2", "k8s.io/utils/clock"},
		why:     "what hands flows on knows flows, and no callers"},
	{folder: "internal/flows", own: []string{"internal/cloud"}, noStd: pureStd, why: "what was seen knows no cloud and no policy"},
	{folder: "internal/cloud/aws/flowlog", own: []string{"internal/cloud", "internal/flows"}, foreign: []string{"github.com/parquet-go/parquet-go"}, noStd: pureStd,
		why: "reading a flow log needs no account"},
	{folder: "internal/cloud/azure/flowlog", own: []string{"internal/cloud", "internal/flows"}, noStd: pureStd, why: "reading a flow log needs no account"},
	{folder: "internal/cloud/aws/lower", own: []string{"internal/cloud", "internal/cloud/plan", "internal/cloud/plan/addrset", "internal/cloud/plan/flow"},
		noStd: pureStd, why: "lowering is pure"},
	{folder: "internal/cloud/pace", own: []string{"internal/cloud"}, foreign: []string{"golang.org/x/time/rate"},
		why: "how to keep to a rate is the same on every cloud"},
	{folder: "internal/cloud/aws/values", own: []string{"internal/cloud"}, foreign: awsSDK, noStd: pureStd, why: "translating between values needs no account"},
	{folder: "internal/cloud/aws/event", own: []string{"internal/cloud", "internal/cloud/aws/values"}, noStd: []string{"log", "log/slog", "net", "net/http", "os"},
		why: "what an event says needs no account"},
	{folder: "internal/cloud/aws/native", foreign: awsSDK, why: "native services know no VMs",
		own: []string{"internal/cloud", "internal/cloud/aws/bounds", "internal/cloud/aws/failure", "internal/cloud/aws/values", "internal/platform/recovered"}},
	{folder: "internal/cloud/aws/bounds", own: []string{"internal/cloud"}, foreign: awsSDK, why: "what bounds answers calls nothing"},
	{folder: "internal/cloud/aws/failure", own: []string{"internal/cloud"}, foreign: awsSDK, why: "errors are classified in one place"},
	{folder: "internal/cloud/aws", own: []string{"api", "internal/cloud", "internal/cloud/pace", "internal/platform"}, foreign: awsSDK,
		why: "an adapter knows its port, its SDK, and the rates of its cloud"},
	{
		folder: "internal/cloud/azure/lower",
		own:    []string{"internal/cloud", "internal/cloud/aws/lower", "internal/cloud/plan", "internal/cloud/plan/addrset", "internal/cloud/plan/flow"},
		noStd:  pureStd,
		why:    "lowering is pure",
	},
	{folder: "internal/cloud/azure/rights", noStd: pureStd, why: "what a role permits is told from the published one alone"},
	{folder: "internal/cloud/azure/resources", own: []string{"api", "internal/cloud", "internal/cloud/azure/lower"}, noStd: pureStd, why: "what documents mean needs no account"},
	{folder: "internal/cloud/azure", own: []string{"api", "internal/cloud", "internal/cloud/azure/lower", "internal/cloud/azure/resources", "internal/cloud/pace", "internal/platform"}, foreign: azureSDK,
		why: "an adapter knows its port, its SDK, and the rates of its cloud"},
	{folder: "internal/cloud/accountspec", own: []string{"api", "internal/cloud"}, noStd: pureStd, why: "what an account says is read without I/O"},
	{folder: "internal/cloud/selection", own: []string{"api", "internal/cloud", "internal/cloud/accountspec"}, foreign: []string{"k8s.io/api/", "k8s.io/apimachinery/"},
		noStd: append([]string{"sync"}, pureStd...), why: "what selectors choose is decided without a client and a clock, for the loop and for what asks"},
	{folder: "internal/cloud/inventory", own: []string{"api", "internal/cloud", "internal/cloud/accountspec", "internal/cloud/selection", "internal/platform"}, foreign: kubernetes,
		why: "loops never import one another"},
	{folder: "internal/cloud/noderoutes", own: []string{"api", "internal/cloud", "internal/platform"}, foreign: kubernetes,
		why: "loops never import one another"},
	{folder: "internal/cloud/realize/instance", own: []string{"internal/cloud", "internal/cloud/plan", "internal/cloud/tenure", "internal/platform"}, foreign: kubernetes,
		why: "the right to write is found out without knowing what is written"},
	{folder: "internal/cloud/realize/brake", own: []string{"internal/cloud/plan"}, noStd: append([]string{"log", "sync"}, pureStd...),
		why: "what is too large a change is decided without I/O and clock"},
	{folder: "internal/cloud/realize/past", own: []string{"internal/cloud", "internal/cloud/plan"}, noStd: append([]string{"log", "sync"}, pureStd...),
		why: "what somebody else has changed is told by comparing snapshots"},
	{folder: "internal/cloud/realize/wire", own: []string{"internal/cloud", "internal/cloud/plan"}, noStd: append([]string{"log"}, pureStd...),
		why: "how long a step waits is told with a time that is passed in"},
	{folder: "internal/cloud/realize/status", own: []string{"api", "internal/cloud", "internal/cloud/plan", "internal/cloud/plan/render", "internal/cloud/handover",
		"internal/cloud/realize/brake", "internal/cloud/realize/instance", "internal/cloud/tenure", "internal/platform"}, foreign: kubernetes, why: "what became of an account is told without knowing how it came about"},
	{
		folder: "internal/cloud/realize",
		own: []string{
			"api",
			"internal/cloud",
			"internal/cloud/plan",
			"internal/cloud/plan/render",
			"internal/cloud/forecast",
			"internal/cloud/handover",
			"internal/cloud/tenure",
			"internal/enforcer",
			"internal/platform",
		},
		foreign: kubernetes,
		why:     "loops never import one another; what is computed comes through the served API",
	},
	{
		folder:  "internal/agent/nft/kernel",
		own:     []string{"internal/agent/nft", "internal/agent/nft/ruleset"},
		foreign: []string{"github.com/google/nftables/", "github.com/mdlayher/netlink", "github.com/vishvananda/netlink", "golang.org/x/sys/unix"},
		why:     "the loader knows programs and the kernel",
	},
	{folder: "internal/agent/nft/nfttest", own: []string{"api", "internal/agent/nft", "internal/agent/nft/ruleset", "internal/convert", "internal/enforcer", "internal/policy", "internal/policy/policytest"},
		foreign: []string{"k8s.io/apimachinery/", "github.com/vishvananda/", "github.com/google/nftables", "golang.org/x/sys/unix"}, why: "tests hold the agent against the policies"},
	{folder: "internal/agent/nft/ruleset", own: []string{"api"}, noStd: pureStd, why: "what a program is does not depend on where it comes from"},
	{folder: "internal/agent/nft", own: []string{"api", "internal/enforcer"}, foreign: []string{"k8s.io/apimachinery/", "go4.org/netipx"},
		noStd: pureStd, why: "compiling is pure"},
	{folder: "internal/agent/cni", own: []string{"internal/agent/network"},
		foreign: []string{"github.com/containernetworking/cni/", "github.com/vishvananda/netlink", "github.com/vishvananda/netns", "golang.org/x/sys/unix"},
		why:     "a runtime starts the plugin for each Pod, so it is small"},
	{folder: "internal/agent/network/links", own: []string{"internal/agent/network"}, foreign: []string{"github.com/vishvananda/netlink", "golang.org/x/sys/unix"},
		why: "what is in the kernel is read and written, and decided elsewhere"},
	{folder: "internal/agent/network/wireguard", own: []string{"internal/agent/network", "internal/platform/certs"},
		foreign: []string{"github.com/go-logr/logr", "github.com/vishvananda/netlink", "golang.org/x/sys/unix", "golang.zx2c4.com/wireguard/"},
		why:     "the peers behind a device are decided elsewhere, and only nephele-agent links what encrypts"},
	{folder: "internal/agent/network/ipsec", own: []string{"api", "internal/agent/network", "internal/platform/certs", "internal/platform/recovered"},
		foreign: []string{"github.com/go-logr/logr", "github.com/strongswan/govici/vici", "github.com/vishvananda/netlink", "golang.org/x/sys/unix", "k8s.io/utils/clock"},
		why:     "the peers behind a device are decided elsewhere, and only nephele-agent links what encrypts"},
	{folder: "internal/agent/proxy", own: []string{"internal/agent/nft", "internal/agent/nft/ruleset"}, foreign: []string{"k8s.io/api/"}, noStd: pureStd, why: "where connections to Services go is told without I/O"},
	{folder: "internal/agent/network", noStd: pureStd, why: "what a network needs is told without I/O"},
	{folder: "internal/agent/nodes", own: []string{"api", "internal/agent/network"}, foreign: []string{"k8s.io/api/core/v1", "k8s.io/apimachinery/"}, noStd: pureStd,
		why: "what of Nodes agents need is read in one place"},
	{folder: "internal/agent/egress", own: []string{"api", "internal/agent/network", "internal/agent/nft", "internal/agent/nodes", "internal/platform/recovered"},
		foreign: []string{"github.com/go-logr/logr", "k8s.io/api/", "k8s.io/apimachinery/", "k8s.io/client-go/tools/cache", "k8s.io/utils/clock"},
		why:     "which Node has the address of an Egress is decided without knowing policies"},
	{folder: "internal/egress", own: []string{"api", "internal/convert", "internal/platform"}, foreign: kubernetes, why: "what gives Egresses addresses knows no agent"},
	{folder: "internal/agent/capturing", own: []string{"api", "internal/agent/nft/kernel", "internal/platform/recovered"},
		foreign: []string{"github.com/go-logr/logr", "k8s.io/apimachinery/", "k8s.io/client-go/tools/cache", "k8s.io/utils/clock"},
		why:     "what is captured knows no policies"},
	{folder: "internal/agent/latency", own: []string{"api", "internal/platform/recovered"},
		foreign: []string{"github.com/go-logr/logr", "golang.org/x/net/", "k8s.io/api/core/v1", "k8s.io/apimachinery/", "k8s.io/client-go/tools/cache", "k8s.io/utils/clock"},
		why:     "what is measured knows no policies"},
	{folder: "internal/agent/tracing", own: []string{"api", "internal/agent/nft/ruleset", "internal/agent/nft/kernel", "internal/platform/recovered"},
		foreign: []string{"github.com/go-logr/logr", "k8s.io/apimachinery/", "k8s.io/client-go/tools/cache", "k8s.io/utils/clock"},
		why:     "what is traced is told of what the kernel says"},
	{folder: "internal/traceflow", own: []string{"api", "internal/platform"}, foreign: kubernetes, why: "what runs Traceflows knows no agent"},
	{folder: "internal/agent/traffic", own: []string{"api", "internal/agent/nft/ruleset", "internal/agent/nft/kernel", "internal/agent/nft/kernel/conntrack"}, foreign: []string{"k8s.io/apimachinery/", "k8s.io/utils/clock"},
		why: "what was seen is judged by the program in force, without I/O"},
	{folder: "internal/agent/localpods", own: []string{"api", "internal/agent/cni", "internal/agent/nft", "internal/agent/proxy"}, foreign: kubernetes, why: "which Pods there are is learned without knowing what is done with them"},
	{folder: "internal/agent/cluster/clustertest", own: []string{"internal/agent/cluster"}, foreign: kubernetes, why: "tests of what follows objects know nothing else of the agent"},
	{folder: "internal/agent/cluster", foreign: kubernetes, why: "how objects are followed knows no objects"},
	{folder: "internal/agent/fqdn", own: []string{"internal/agent/cluster", "internal/agent/nft", "internal/agent/nft/ruleset", "internal/agent/nft/kernel", "internal/platform/errtext"},
		foreign: append([]string{"golang.org/x/net/dns/dnsmessage"}, kubernetes...), why: "what is known of names knows no policies"},
	{folder: "internal/agent/packetlog", own: []string{"internal/agent/nft/ruleset", "internal/agent/nft/kernel", "internal/platform/errtext", "internal/platform/recovered"}, foreign: []string{"k8s.io/utils/clock"},
		why: "lines are written of packets and the rules that logged them"},
	{folder: "internal/agent/disk", own: []string{"api", "internal/agent/cni", "internal/agent/fqdn", "internal/agent/network", "internal/agent/nft", "internal/agent/proxy", "internal/enforcer",
		"internal/platform/recovered"}, why: "what is kept is written and read without knowing what is done with it"},
	{folder: "internal/agent/services", own: []string{"api", "internal/agent/cluster", "internal/agent/nft", "internal/agent/nft/ruleset", "internal/agent/proxy", "internal/platform/recovered"}, foreign: kubernetes,
		why: "what is known of Services knows no enforcer"},
	{folder: "internal/agent/nodenetwork", own: []string{"api", "internal/agent/cluster", "internal/agent/cni", "internal/agent/disk", "internal/agent/network", "internal/agent/nft", "internal/agent/nodes",
		"internal/platform/errtext", "internal/platform/recovered"}, foreign: kubernetes, why: "the network of a Node knows no policies"},
	{folder: "internal/agent/pods", own: []string{"api", "internal/agent/cluster", "internal/agent/cni", "internal/agent/disk", "internal/agent/localpods", "internal/agent/network", "internal/agent/nft", "internal/agent/nft/ruleset",
		"internal/agent/nodes", "internal/agent/proxy"}, foreign: kubernetes, why: "what is known of Pods knows no enforcer"},
	{folder: "internal/agent/admission", own: []string{"api", "internal/agent/cni", "internal/agent/nft", "internal/agent/pods", "internal/enforcer", "internal/platform/recovered"}, foreign: kubernetes,
		why: "how long a new Pod waits is decided without knowing how rules are written"},
	{
		folder: "internal/agent",
		own: []string{"api", "internal/agent/admission", "internal/agent/cluster", "internal/agent/nodenetwork", "internal/agent/pods", "internal/agent/services", "internal/agent/cni", "internal/agent/disk", "internal/agent/fqdn", "internal/agent/packetlog", "internal/agent/network", "internal/agent/nft", "internal/agent/nft/ruleset", "internal/agent/nft/kernel", "internal/agent/nodes", "internal/agent/proxy", "internal/agent/traffic",
			"internal/agent/localpods", "internal/enforcer", "internal/platform"},
		foreign: append(
			[]string{"github.com/mdlayher/netlink", "golang.org/x/sys/unix"},
			kubernetes...),
		why: "the agent is one more enforcer: what is computed comes through the served API",
	},
	{folder: "internal/enroll/identity", foreign: []string{"github.com/smallstep/pkcs7"}, noStd: pureStd, why: "what a cloud has signed is checked without knowing the caller"},
	{folder: "internal/enroll/credential", own: []string{"internal/enroll/identity"}, foreign: kubernetes,
		why: "a host proves itself without knowing the server"},
	{folder: "internal/enroll", own: []string{"api", "internal/platform"}, foreign: kubernetes,
		why: "identities of hosts know no users"},
	{
		folder: "internal/cli/agentcmd",
		own: []string{"api", "internal/agent", "internal/agent/capturing", "internal/agent/cni", "internal/agent/disk", "internal/agent/egress", "internal/agent/fqdn", "internal/agent/packetlog", "internal/agent/latency", "internal/agent/localpods", "internal/agent/network", "internal/agent/network/links", "internal/agent/nft", "internal/agent/nft/ruleset", "internal/agent/nft/kernel", "internal/agent/nft/kernel/conntrack", "internal/agent/nodenetwork", "internal/agent/pods", "internal/agent/services", "internal/agent/tracing", "internal/agent/traffic",
			"internal/cli/terminal", "internal/cloud/handover", "internal/enforcer",
			"internal/enroll/credential", "internal/enroll/identity"},
		foreign: append([]string{"github.com/spf13/", "gopkg.in/natefinch/lumberjack.v2"}, kubernetes...),
		why:     "every host holds in its memory what these commands link",
	},
	{folder: "internal/cli/terminal", foreign: append([]string{"github.com/spf13/", "golang.org/x/term"}, kubernetes...), why: "the manners of all programs know no answers"},
	{folder: "internal/clusterset/wire", noStd: pureStd, why: "what goes over the wire is read and written without knowing what it means"},
	{folder: "internal/clusterset/peers", own: []string{"api", "internal/clusterset/wire", "internal/policy"}, foreign: []string{"k8s.io/apimachinery/", "sigs.k8s.io/json"}, noStd: pureStd,
		why: "what a policy of the set means is told from it alone"},
	{folder: "internal/clusterset/halves", own: []string{"api", "internal/clusterset/wire"}, noStd: pureStd, why: "what one end decides is read and written without I/O"},
	{folder: "internal/clusterset/setmap", own: []string{"api", "internal/cloud/forecast", "internal/cloud/plan/flow", "internal/clusterset/wire", "internal/expect", "internal/explain/classes"}, noStd: pureStd,
		why: "what comes of the answers of members is told without I/O"},
	{folder: "internal/clusterset/claims", own: []string{"api", "internal/clusterset/peers", "internal/clusterset/wire"}, noStd: pureStd, why: "claims are judged without I/O"},
	{folder: "internal/clusterset/feed", own: []string{"internal/clusterset/peers", "internal/clusterset/wire", "internal/policy", "internal/table"}, noStd: pureStd, why: "what is told is decided without I/O"},
	{folder: "internal/clusterset/union", own: []string{"api", "internal/clusterset/claims", "internal/clusterset/peers", "internal/clusterset/wire", "internal/policy", "internal/policy/compute"}, noStd: pureStd,
		why: "what members have is computed without I/O"},
	{folder: "internal/clusterset/outbox", own: []string{"internal/clusterset/wire"}, noStd: pureStd, why: "what is told is decided without I/O"},
	{folder: "internal/clusterset/remote", own: []string{"internal/clusterset/wire", "internal/policy"}, noStd: pureStd, why: "what is kept of others is decided without I/O"},
	{folder: "internal/clusterset/plain", own: []string{"api", "internal/clusterset/peers", "internal/convert", "internal/policy"}, foreign: []string{"k8s.io/api/", "k8s.io/apimachinery/"}, noStd: pureStd,
		why: "what the hub says is put into the words of an Antrea Controller without I/O"},
	{folder: "internal/clusterset/pulse", foreign: kubernetes, why: "both ends of a stream use it"},
	{folder: "internal/clusterset/hub/questions", own: []string{"api", "internal/clusterset/halves", "internal/clusterset/peers", "internal/clusterset/setmap", "internal/clusterset/wire", "internal/policy"}, foreign: kubernetes,
		why: "questions are divided without knowing how members are asked"},
	{folder: "internal/clusterset/hub/records", own: []string{"api", "internal/clusterset/wire"}, foreign: kubernetes, why: "what members have is kept on record without knowing what it means"},
	{folder: "internal/clusterset/hub", own: []string{"api", "internal/clusterset/claims", "internal/clusterset/outbox", "internal/clusterset/halves", "internal/clusterset/peers", "internal/clusterset/pulse",
		"internal/clusterset/setmap", "internal/clusterset/union", "internal/clusterset/wire", "internal/convert", "internal/platform", "internal/policy"}, foreign: kubernetes,
		why: "loops never import one another"},
	{folder: "internal/clusterset/member/certificate", own: []string{"internal/enroll/credential"}, foreign: kubernetes,
		why: "what a member proves itself with is kept without knowing what it says"},
	{folder: "internal/clusterset/member/copies", own: []string{"api", "internal/clusterset/wire", "internal/convert"}, foreign: kubernetes, noStd: pureStd,
		why: "what becomes of the policies of a hub is decided without I/O"},
	{folder: "internal/clusterset/member/records", own: []string{"api"}, foreign: kubernetes, why: "groups are kept on record without knowing what they are"},
	{folder: "internal/clusterset/member/external", own: []string{"api", "internal/clusterset/peers", "internal/clusterset/plain", "internal/clusterset/remote", "internal/convert"}, foreign: kubernetes,
		why: "ExternalEntities are written without knowing where their members come from"},
	{folder: "internal/clusterset/member/own", own: []string{"api", "internal/clusterset/feed", "internal/clusterset/peers", "internal/clusterset/remote", "internal/clusterset/wire", "internal/convert",
		"internal/policy", "internal/policy/admission"}, foreign: kubernetes, noStd: pureStd, why: "what own policies ask for is decided without I/O"},
	{folder: "internal/clusterset/member/questions", own: []string{"api", "internal/clusterset/halves", "internal/clusterset/setmap", "internal/clusterset/wire", "internal/platform/recovered"}, foreign: kubernetes,
		why: "questions are answered without knowing how they came"},
	{folder: "internal/clusterset/member", own: []string{"api", "internal/clusterset/claims", "internal/clusterset/feed", "internal/clusterset/halves", "internal/clusterset/peers", "internal/clusterset/pulse",
		"internal/clusterset/plain", "internal/clusterset/remote", "internal/clusterset/setmap", "internal/clusterset/wire", "internal/convert", "internal/enroll/credential", "internal/platform", "internal/policy",
		"internal/policy/admission"}, foreign: kubernetes,
		why: "loops never import one another"},
	{folder: "internal/enforcer", own: []string{"api", "internal/platform"}, foreign: kubernetes,
		why: "the enforcer's side of the protocol knows no server and no cloud"},
	{folder: "internal/cloud/audit", own: []string{"internal/cloud"}, foreign: []string{"github.com/go-logr/logr", "github.com/prometheus/", "gopkg.in/natefinch/lumberjack.v2"},
		why: "the record of changes knows what a call is, and no caller"},
	{folder: "internal/cloud/cloudtest", own: []string{"internal/cloud"}, foreign: []string{"github.com/google/go-cmp/"},
		why: "the conformance suite knows the port only"},
	{folder: "internal/cloud", own: []string{"api"}, why: "the port holds types only"},
	{folder: "internal/convert", own: []string{"api", "internal/apiserver/watchstore", "internal/policy", "internal/policy/compute"}, foreign: kubernetes, noStd: pureStd,
		why: "what is translated is the same for the loop and for commands that compute without one"},
	{folder: "internal/control/trim", own: []string{"api", "internal/convert"}, foreign: kubernetes, why: "what informers keep of objects is decided without knowing what is computed of them"},
	{folder: "internal/control", own: []string{"api", "internal/clusterset/peers", "internal/convert", "internal/kinds", "internal/policy", "internal/policy/compute", "internal/policy/evaluate", "internal/policy/translate", "internal/policy/admission", "internal/apiserver/watchstore", "internal/platform", "internal/table"}, foreign: kubernetes,
		why: "loops never import one another; control alone drives the engine"},
	{folder: "internal/history", own: []string{"api", "internal/kinds", "internal/platform"}, foreign: kubernetes,
		why: "the history receives policies from their watchers, and nothing acts on it"},
	{folder: "internal/apiserver/webhook", own: []string{"api", "internal/clusterset/peers", "internal/kinds", "internal/policy", "internal/policy/admission", "internal/convert", "internal/platform/recovered"}, foreign: kubernetes,
		why: "the webhooks put the rules of admission on the wire; what else they need to know comes through an interface"},
	{folder: "internal/apiserver/bundle", own: []string{"api", "internal/apiserver/storage", "internal/platform/recovered"}, foreign: kubernetes, why: "a bundle is kept without knowing what it has"},
	{folder: "internal/apiserver/watchstore", own: []string{"api", "internal/platform", "internal/table"}, foreign: kubernetes,
		why: "the store serves computed objects and knows neither writers nor readers"},
	{folder: "internal/apiserver/roster", own: []string{"api", "internal/convert", "internal/platform/recovered", "internal/table"}, foreign: kubernetes,
		why: "the table of processes knows no callers"},
	{folder: "internal/apiserver/nodecertificates", own: []string{"api", "internal/apiserver/storage", "internal/enroll/credential"}, foreign: kubernetes,
		why: "an authority signs through an interface"},
	{folder: "internal/apiserver/stats", own: []string{"api", "internal/platform"}, foreign: kubernetes,
		why: "the counters know neither writers nor readers"},
	{folder: "internal/explain/imported", own: []string{"api", "internal/policy"}, noStd: pureStd, why: "what an entity represents is read from its name and labels alone"},
	{folder: "internal/explain/input", own: []string{"api", "internal/cloud", "internal/cloud/selection", "internal/convert", "internal/kinds", "internal/policy"}, foreign: kubernetes, noStd: pureStd,
		why: "what answers are made of decides nothing"},
	{folder: "internal/explain/redact", own: []string{"api", "internal/cloud", "internal/cloud/selection", "internal/convert", "internal/explain/input", "internal/policy"},
		foreign: kubernetes, noStd: pureStd, why: "what a caller may see is decided without an answer"},
	{folder: "internal/explain/placement", own: []string{"internal/cloud", "internal/cloud/plan/addrset", "internal/cloud/selection", "internal/cloud/trace", "internal/explain/input", "internal/policy", "internal/reach"},
		foreign: []string{"k8s.io/apimachinery/"}, noStd: pureStd, why: "where entities are is known without a question"},
	{folder: "internal/explain/leaving", own: []string{"api", "internal/explain/input", "internal/policy"}, foreign: kubernetes, noStd: pureStd, why: "how packets leave is told from objects alone"},
	{folder: "internal/explain/classes", own: []string{"api", "internal/cloud", "internal/explain", "internal/explain/imported", "internal/policy", "internal/reach"}, noStd: pureStd,
		why: "classes ask a world, and decide nothing about traffic"},
	{folder: "internal/explain", own: []string{"api", "internal/clusterset/peers", "internal/platform/work", "internal/kinds", "internal/policy", "internal/policy/compute", "internal/policy/evaluate", "internal/policy/admission", "internal/convert", "internal/cloud", "internal/cloud/selection",
		"internal/cloud/plan", "internal/cloud/plan/addrset", "internal/cloud/plan/flow", "internal/cloud/plan/model", "internal/cloud/trace", "internal/reach"},
		foreign: kubernetes, noStd: pureStd, why: "answers are made without I/O, from objects that somebody read"},
	{folder: "internal/review", own: []string{"api", "internal/policy", "internal/policy/evaluate", "internal/cloud/forecast", "internal/cloud/plan/addrset", "internal/clusterset/setmap", "internal/clusterset/wire", "internal/expect", "internal/explain", "internal/explain/classes", "internal/reach"},
		foreign: kubernetes, noStd: pureStd, why: "reviews are answered without I/O, from what was computed"},
	{folder: "internal/console", own: []string{"internal/kinds"}, foreign: append([]string{"golang.org/x/net/netutil", "golang.org/x/oauth2", "github.com/coreos/go-oidc/v3/oidc"}, kubernetes...),
		why: "the console knows the wire of the Kubernetes API and nothing of what is behind it"},
	{
		folder: "internal/cli/source",
		own: []string{
			"api", "internal/cli/terminal", "internal/cloud", "internal/cloud/accountspec", "internal/cloud/aws", "internal/cloud/azure", "internal/clusterset/peers", "internal/clusterset/remote",
			"internal/controller/clouds", "internal/explain", "internal/explain/input", "internal/kinds", "internal/manifest", "internal/platform", "internal/policy", "internal/preview", "internal/review",
			"internal/sim", "internal/sim/aws", "internal/sim/estate", "internal/sim/estate/source",
		},
		foreign: append([]string{"github.com/spf13/"}, kubernetes...),
		why:     "what commands answer from is read without an answer",
	},
	{
		folder: "internal/cli/plancmd",
		own: []string{"api", "internal/cli/flowscmd", "internal/cli/show", "internal/cli/source", "internal/cli/terminal", "internal/cloud", "internal/cloud/plan", "internal/controller/clouds", "internal/manifest",
			"internal/platform", "internal/preview"},
		foreign: append([]string{"github.com/spf13/"}, kubernetes...),
		why:     "one command knows no other one",
	},
	{
		folder: "internal/cli/explaincmd",
		own: []string{"api", "internal/cli/flowscmd", "internal/cli/show", "internal/cli/source", "internal/cli/terminal", "internal/cloud", "internal/clusterset/hub/questions", "internal/controller/clouds",
			"internal/explain", "internal/platform", "internal/preview", "internal/review"},
		foreign: append([]string{"github.com/spf13/"}, kubernetes...),
		why:     "one command knows no other one",
	},
	{
		folder: "internal/cli/show",
		own: []string{
			"api", "internal/cli/terminal", "internal/cli/flowscmd", "internal/cloud", "internal/cloud/forecast", "internal/cloud/plan/render", "internal/cloud/trace",
			"internal/clusterset/halves", "internal/expect", "internal/explain", "internal/explain/leaving", "internal/policy", "internal/policy/evaluate", "internal/reach", "internal/review", "internal/status",
		},
		noStd: pureStd,
		why:   "how answers look to people is decided without I/O",
	},
	{folder: "internal/seed", why: "tests of every package draw from it"},
	{folder: "internal/tier", why: "tests of every package ask it"},
	{folder: "internal/expect", own: []string{"api", "internal/policy", "internal/policy/evaluate", "internal/cloud", "internal/cloud/plan/flow", "internal/explain", "internal/explain/input", "internal/reach"},
		foreign: kubernetes, noStd: pureStd, why: "tests of policies are judged without I/O, from what was computed"},
	{
		folder: "internal/preview/previewtest",
		own: []string{
			"api", "internal/cloud", "internal/cloud/aws", "internal/cloud/aws/flowlog", "internal/controller/clouds", "internal/explain", "internal/flows", "internal/preview", "internal/reach",
			"internal/sim", "internal/sim/aws", "internal/sim/aws/packet", "internal/sim/estate", "internal/sim/estatetest", "internal/sim/flowlog",
		},
		why: "tests of answers compare them with the simulator",
	},
	{
		folder: "internal/preview",
		own: []string{
			"api", "internal/agent/nft", "internal/agent/nft/ruleset", "internal/kinds", "internal/manifest", "internal/policy", "internal/policy/admission", "internal/convert", "internal/apiserver/watchstore",
			"internal/apiserver/webhook", "internal/cloud/handover", "internal/cloud", "internal/cloud/accountspec", "internal/cloud/forecast", "internal/cloud/plan", "internal/cloud/plan/flow",
			"internal/cloud/plan/render", "internal/cloud/realize", "internal/cloud/selection", "internal/cloud/signs", "internal/enforcer", "internal/expect", "internal/explain",
			"internal/explain/input", "internal/explain/redact", "internal/reach", "internal/review", "internal/platform/work",
		},
		foreign: append([]string{"github.com/google/uuid"}, kubernetes...),
		noStd:   []string{"net/http/httptest", "os", "log", "log/slog"},
		why:     "what manifests would change is told from what somebody has read; it opens no account itself",
	},
	{folder: "internal/manifest", own: []string{"api", "api/generated/crd", "internal/expect", "internal/kinds", "internal/platform"}, foreign: append([]string{"go.yaml.in/yaml/v3"}, kubernetes...),
		noStd: []string{"net/http", "log", "log/slog"}, why: "manifests are read and checked by their schemas, and nothing is made of them"},
	{folder: "internal/sim/imds", foreign: []string{"github.com/smallstep/pkcs7"}, why: "the simulator knows nothing of what it tests"},
	{folder: "internal/sim/aws/packet", own: []string{"internal/sim/aws", "internal/sim/effect", "internal/sim/native"}, noStd: pureStd,
		why: "what becomes of a packet is decided from the resources alone, without the calls that made them"},
	{folder: "internal/sim/aws/network", own: []string{"internal/sim/aws", "internal/sim/store"}, why: simulatedCalls},
	{folder: "internal/sim/aws/group", own: []string{"internal/sim/aws", "internal/sim/store"}, why: simulatedCalls},
	{folder: "internal/sim/aws/compute", own: []string{"internal/sim/aws", "internal/sim/store"}, why: simulatedCalls},
	{folder: "internal/sim/aws/service", own: []string{"internal/sim/aws", "internal/sim/aws/compute", "internal/sim/native", "internal/sim/store"}, why: simulatedCalls},
	{folder: "internal/sim/aws", own: []string{"internal/sim/azure", "internal/sim/effect", "internal/sim/iam", "internal/sim/native"},
		noStd: []string{"context", "os", "log", "log/slog", "sync"}, why: "resources are values, and nothing is decided about packets here"},
	{folder: "internal/sim/store", own: []string{"internal/sim/aws", "internal/sim/aws/packet", "internal/sim/azure", "internal/sim/effect", "internal/sim/native"},
		noStd: pureStd, why: "the state of the simulated clouds knows no calls"},
	{folder: "internal/sim", own: []string{"internal/platform"}, foreign: []string{"golang.org/x/time/rate", "sigs.k8s.io/yaml"},
		why: "the simulator is the second opinion: it knows nothing of the rest"},
	{folder: "internal/controller/clouds", own: []string{"api", "config/azure", "internal/cloud", "internal/cloud/accountspec", "internal/cloud/aws", "internal/cloud/aws/lower", "internal/cloud/azure",
		"internal/cloud/azure/lower", "internal/cloud/azure/rights", "internal/cloud/pace", "internal/cloud/plan", "internal/platform"}, foreign: append([]string{"github.com/go-logr/logr", "github.com/prometheus/client_golang/prometheus"}, kubernetes...),
		why: "commands open accounts without the loops and servers of the controller"},
	{folder: "internal/platform/tracing/collector", own: []string{"internal/platform/tracing"}, foreign: []string{"github.com/go-logr/logr", "go.opentelemetry.io/otel"},
		why: "only here do traces leave the process"},
	{folder: "internal/platform/tracing", foreign: []string{"github.com/go-logr/logr", "go.opentelemetry.io/otel"},
		why: "only here are traces written, and nobody else knows how"},
	{folder: "internal/platform", foreign: kubernetes, why: "no domain words"},
	{folder: "packaging/chart", foreign: []string{"helm.sh/helm/v3/", "sigs.k8s.io/yaml"}, why: "rendering needs no cluster"},
	{
		folder:  "packaging/image",
		foreign: []string{"github.com/CycloneDX/cyclonedx-go", "github.com/google/go-containerregistry/", "golang.org/x/crypto/x509roots/"},
		why:     "images are made of bytes, and know nothing of what is in them",
	},
}

// sourceFile is one parsed Go file of either module.
type sourceFile struct {
	path string // slash-separated, from the root
	test bool
	ast  *ast.File
}

func parseTree(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, sourceFile{filepath.ToSlash(path), strings.HasSuffix(name, "_test.go"), f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("found only %d Go files: the test does not run at the root of the repository", len(files))
	}
	return files
}

func below(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// violation returns what is wrong with a package of the layer importing imp, or "".
func (l layer) violation(imp string) string {
	first, _, _ := strings.Cut(imp, "/")
	switch {
	case imp == module || strings.HasPrefix(imp, module+"/"):
		target := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
		if below(target, l.folder) {
			return ""
		}
		// Only the named folder itself, or the tree below api and platform.
		for _, o := range l.own {
			if target == o || ((o == "api" || o == "internal/platform") && below(target, o)) {
				return ""
			}
		}
		return fmt.Sprintf("may import of this module only %v", l.own)
	case !strings.Contains(first, "."):
		if slices.Contains(l.noStd, imp) {
			return "may not import " + imp
		}
		return ""
	default:
		for _, p := range l.foreign {
			if strings.HasPrefix(imp, p) {
				return ""
			}
		}
		return fmt.Sprintf("may import of other modules only %v", l.foreign)
	}
}

func TestImportRules(t *testing.T) {
	for _, f := range parseTree(t) {
		if f.test {
			continue
		}
		folder := filepath.ToSlash(filepath.Dir(f.path))
		for _, l := range layers {
			if !below(folder, l.folder) {
				continue
			}
			for _, spec := range f.ast.Imports {
				imp, _ := strconv.Unquote(spec.Path.Value)
				if wrong := l.violation(imp); wrong != "" {
					t.Errorf("%s imports %s: %s %s (%s)", f.path, imp, l.folder, wrong, l.why)
				}
			}
			break
		}
		for _, spec := range f.ast.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			if loop := strings.TrimPrefix(imp, module+"/"); below(folder, "internal/cli") && slices.Contains(loops, loop) {
				t.Errorf("%s imports %s: commands ask pure packages, and only controller runs loops", f.path, imp)
			}
			if strings.HasPrefix(imp, "k8s.io/kubernetes/") && !below(folder, "standalone") && !below(folder, "test/cluster") {
				t.Errorf("%s imports %s: only standalone and test/cluster may", f.path, imp)
			}
			// Twenty megabytes of nephele-slim are methods that nothing calls.
			if (imp == "text/template" || imp == "html/template") && !below(folder, "hack") {
				t.Errorf("%s imports %s: templates call methods by name, so the linker keeps all of them", f.path, imp)
			}
		}
	}
}

// loops are the packages that read and write by themselves.
var loops = []string{"internal/cloud/inventory", "internal/cloud/noderoutes", "internal/cloud/realize", "internal/control"}

// heavy are packages of which each costs an agent megabytes.
var heavy = []string{"github.com/aws/", "github.com/Azure/", "go.etcd.io/", "google.golang.org/grpc", "k8s.io/apiserver/", "k8s.io/client-go/kubernetes", "k8s.io/client-go/informers",
	"k8s.io/kubernetes/", "sigs.k8s.io/controller-runtime/", module + "/internal/apiserver", module + "/internal/cloud/aws", module + "/internal/cloud/azure", module + "/internal/console",
	module + "/internal/control", module + "/internal/policy", module + "/internal/sim"}

// TestHostsHoldOnlyTheirAgent looks at all that nephele-agent links.
func TestHostsHoldOnlyTheirAgent(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./cmd/nephele-agent")
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, module+"/internal/agent/nft/kernel") {
		t.Fatalf("%d packages, and the agent is none of them", len(linked))
	}
	for _, p := range linked {
		if i := slices.IndexFunc(heavy, func(h string) bool { return strings.HasPrefix(p, h) }); i >= 0 {
			t.Errorf("nephele-agent links %s (the comment of cmd/nephele-agent says why that matters)", p)
		}
	}
}

func TestPackageNamesAndComments(t *testing.T) {
	documented := map[string]int{}
	names := map[string]string{}
	for _, f := range parseTree(t) {
		folder := filepath.ToSlash(filepath.Dir(f.path))
		if f.test {
			continue
		}
		names[folder] = f.ast.Name.Name
		if f.ast.Doc != nil && strings.TrimSpace(f.ast.Doc.Text()) != "" {
			documented[folder]++
		}
	}
	for folder, name := range names {
		if slices.Contains([]string{"util", "utils", "common", "types", "helpers", "shared"}, name) {
			t.Errorf("%s: a package is named for what it holds, not %q", folder, name)
		}
		if documented[folder] != 1 {
			t.Errorf("%s: %d files carry a package comment, want exactly one", folder, documented[folder])
		}
	}
}

// TestNothingNamesTheMachine keeps paths and hosts of the place where the project is written out of
// the project.
func TestNothingNamesTheMachine(t *testing.T) {
	// Written in pieces so that this file does not find itself.
	forbidden := []string{"/wo" + "rk/", "/ro" + "ot/", "proxy.go" + "lang.org", ".." + "/shared"}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == ".git" || n == "bin" || n == "node_modules" || n == ".cache" || n == "data" || n == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if path == ".git" || d.Type()&fs.ModeSymlink != 0 {
			return nil // of a further working tree: where the repository is; or what is read where it is
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, f := range forbidden {
			if i := strings.Index(string(raw), f); i >= 0 {
				t.Errorf("%s: line %d names %s", path, 1+strings.Count(string(raw[:i]), "\n"), f)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
