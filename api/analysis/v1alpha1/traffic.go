package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TrafficReport is what an enforcer tells of the connections that it has seen. It is created,
// taken in and not stored as an object. Its name is the key of the enforcer.
// +kubebuilder:object:root=true
type TrafficReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec TrafficReportSpec `json:"spec"`
}

// The bounds of a TrafficReport.
const (
	// MostReportedTraffic is how many entries of Traffic, and MostReportedCauses how many of Causes
	// one report has at most.
	MostReportedTraffic = 2000
	MostReportedCauses  = 2000
	// MostReportedBytes is how large its JSON text is at most.
	MostReportedBytes = 1 << 20
	// MostReportedName is the length of the longest name in a cause, in bytes.
	MostReportedName = 256
)

// TrafficReportSpec is the report.
type TrafficReportSpec struct {
	// Since and Until are the time that it is about, by the clock of the enforcer.
	Since metav1.MicroTime `json:"since"`
	Until metav1.MicroTime `json:"until"`
	// Sent is when the report was sent, by the same clock, for reports that had to wait.
	Sent metav1.MicroTime `json:"sent,omitempty"`
	// Losses count what the enforcer could not tell since its last report.
	Losses TrafficLosses `json:"losses,omitempty"`
	// Uncounted tells that the kernel counts no packets and bytes of connections.
	Uncounted bool `json:"uncounted,omitempty"`
	// Causes are what has decided; the traffic names them by their places.
	Causes []TrafficCause `json:"causes,omitempty"`
	// Traffic is what was seen. Connections that differ in their source ports alone are one entry.
	Traffic []ReportedTraffic `json:"traffic,omitempty"`
}

// TrafficLosses count what is missing from reports.
type TrafficLosses struct {
	// Overruns is how often the kernel dropped events of connections because too many came at once.
	// It does not tell how many. The enforcer finds connections that continue in the kernel's
	// table of connections, and reports them.
	Overruns int64 `json:"overruns,omitempty"`
	// Ends are connections that had ended by then: how much they carried is not told.
	Ends int64 `json:"ends,omitempty"`
	// Packets are packets that were denied and could not be told, because too many came at once.
	Packets int64 `json:"packets,omitempty"`
	// Connections were seen and are in no report, because reports are bounded or were not taken.
	Connections int64 `json:"connections,omitempty"`
}

// TrafficCause is what has decided about a connection.
type TrafficCause struct {
	// Cause is Policy, Isolation, Native, Failsafe, Frame, Related, Itself, NoPod, Routed or
	// Unknown.
	Cause string `json:"cause"`
	// Type, Namespace, Name and UID name the policy, as its enforcers know it. For Isolation they
	// name one policy that isolates, where the enforcer knows which.
	Type      string `json:"type,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	// Direction is that of the rule or of the isolation: In or Out.
	Direction string `json:"direction,omitempty"`
	// Rule is the name of the rule or of the failsafe flow, Index the place of the rule among those
	// of its direction, which is -1 for all rules of a Kubernetes NetworkPolicy.
	Rule  string `json:"rule,omitempty"`
	Index int32  `json:"index,omitempty"`
	// Why says why nothing better is known.
	Why string `json:"why,omitempty"`
}

// ReportedTraffic is what an enforcer has seen of connections that differ in their source ports
// alone.
type ReportedTraffic struct {
	// Direction is In or Out as the enforcer sees it, or Through for what begins and ends
	// elsewhere.
	Direction string `json:"direction"`
	// Client began the connections. Server received them, after its address was translated.
	Client string `json:"client"`
	Server string `json:"server"`
	// Service is the address and port that the client asked, if these were translated.
	Service string `json:"service,omitempty"`
	// Protocol is the number of IANA, Port the one of the server; 0 for protocols without ports.
	Protocol uint8  `json:"protocol"`
	Port     uint16 `json:"port,omitempty"`
	// Verdict is Allow, Drop or Reject; empty for counts of connections that have ended.
	Verdict string `json:"verdict,omitempty"`
	// By is the place of what decided among the causes. Before is the place of what had let it pass
	// on its way before that, as the rule of the sender where both ends are Pods of a Node; absent
	// if nothing had.
	By     int32  `json:"by"`
	Before *int32 `json:"before,omitempty"`
	// Connections that began, Ended ones, and what these carried.
	Connections  int64 `json:"connections,omitempty"`
	Ended        int64 `json:"ended,omitempty"`
	Packets      int64 `json:"packets,omitempty"`
	Bytes        int64 `json:"bytes,omitempty"`
	ReplyPackets int64 `json:"replyPackets,omitempty"`
	ReplyBytes   int64 `json:"replyBytes,omitempty"`
	// Differs is Leaks if the kernel let pass what the rules in force drop, and MayBeOld if the
	// connection may be older than these.
	Differs string `json:"differs,omitempty"`
}

// FlowQuery asks for the connections that were seen.
// +kubebuilder:object:root=true
type FlowQuery struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FlowQuerySpec   `json:"spec"`
	Status FlowQueryStatus `json:"status,omitempty"`
}

// FlowQuerySpec is the question. Everything that is empty is not asked for.
type FlowQuerySpec struct {
	// From and To are a name, NAMESPACE/NAME, a part of one of these, an address or a range.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Namespace is that of one of the ends, Enforcer the key of the one that saw it.
	Namespace string `json:"namespace,omitempty"`
	Enforcer  string `json:"enforcer,omitempty"`
	// Port is that of the server, or of the Service that was asked.
	Port int32 `json:"port,omitempty"`
	// Policy is NAMESPACE/NAME or NAME of what decided.
	Policy string `json:"policy,omitempty"`
	// Verdict is Allow, Denied, or Unknown for connections whose beginning was not seen.
	Verdict string `json:"verdict,omitempty"`
	// Differs asks only for what is not as the policies say.
	Differs bool `json:"differs,omitempty"`
	// Since is the earliest time; absent for all that is known.
	Since *metav1.MicroTime `json:"since,omitempty"`
	// After asks for what came after an answer, with its Next.
	After string `json:"after,omitempty"`
	// Limit bounds the flows of the answer; 0 means 1,000, and at most 5,000.
	Limit int32 `json:"limit,omitempty"`
}

// FlowQueryStatus is the answer.
type FlowQueryStatus struct {
	// Limited tells that something was left out, or has no name, because the caller may not read
	// it.
	Limited bool `json:"limited,omitempty"`
	// Since is from when on flows are known: those before were forgotten, or came before the
	// controller began. A caller who may not see everything gets the time of the flows that he
	// may see.
	Since metav1.MicroTime `json:"since"`
	// Next is what to give as After in the next question.
	Next string `json:"next"`
	// Flows are what was seen, the last first.
	Flows []SeenFlow `json:"flows"`
	// More is how many flows the answer does not have.
	More int64 `json:"more,omitempty"`
	// Enforcers have reported within that time; for a caller who may not see everything, only the
	// enforcers count of which he may see a flow.
	Enforcers int32 `json:"enforcers"`
	// Losses are what they, or the controller, could not keep; only for callers who see everything.
	Losses *FlowLosses `json:"losses,omitempty"`
}

// FlowLosses count what is missing.
type FlowLosses struct {
	TrafficLosses `json:",inline"`
	// Forgotten are flows that were forgotten before an hour had passed, because memory is bounded.
	Forgotten int64 `json:"forgotten,omitempty"`
	// Unlogged are entries that did not get into the log of flows, because it could not be written
	// in time.
	Unlogged int64 `json:"unlogged,omitempty"`
	// Refused are entries of reports that were not taken, because they were malformed.
	Refused int64 `json:"refused,omitempty"`
}

// SeenFlow is what one enforcer saw of connections that are alike.
type SeenFlow struct {
	First metav1.MicroTime `json:"first"`
	Last  metav1.MicroTime `json:"last"`
	// Enforcer is the key of the one that saw it, Direction as it saw it.
	Enforcer  string  `json:"enforcer"`
	Direction string  `json:"direction"`
	From      FlowEnd `json:"from"`
	To        FlowEnd `json:"to"`
	// Service is what the client asked, if its address was translated.
	Service  *FlowEnd `json:"service,omitempty"`
	Protocol string   `json:"protocol"`
	Port     int32    `json:"port,omitempty"`
	// ServicePort is the port that the client asked.
	ServicePort int32 `json:"servicePort,omitempty"`
	// Verdict is Allow, Drop or Reject, or Unknown for connections whose beginning was not seen.
	Verdict string       `json:"verdict"`
	By      TrafficCause `json:"by"`
	// Hidden tells that the caller may not read what decided.
	Hidden bool `json:"hidden,omitempty"`
	// Before is what had let it pass on its way before that, as the rule of the sender where both
	// ends are Pods of a Node; absent if nothing had.
	Before       *TrafficCause `json:"before,omitempty"`
	Connections  int64         `json:"connections"`
	Ended        int64         `json:"ended,omitempty"`
	Packets      int64         `json:"packets,omitempty"`
	Bytes        int64         `json:"bytes,omitempty"`
	ReplyPackets int64         `json:"replyPackets,omitempty"`
	ReplyBytes   int64         `json:"replyBytes,omitempty"`
	Uncounted    bool          `json:"uncounted,omitempty"`
	Differs      string        `json:"differs,omitempty"`
}

// FlowEnd is one end of a flow, as it was when the flow was seen.
type FlowEnd struct {
	Address string `json:"address"`
	// Kind is Pod, ExternalEntity, Node or Service; empty if the holder of the address was unknown,
	// or if the caller may not see it.
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// The effects of policies on a flow that was seen.
const (
	// EffectCut: it was accepted, and would be dropped or rejected.
	// EffectOpened: it was denied, and would be let through.
	EffectCut    = "Cut"
	EffectOpened = "Opened"
	// EffectNone: the same becomes of it. EffectUnknown: that cannot be told.
	EffectNone    = "None"
	EffectUnknown = "Unknown"
)

// FlowEffects is what would become of connections that agents have seen.
type FlowEffects struct {
	// Since is from when on they count.
	Since metav1.MicroTime `json:"since"`
	// Judged counts flows that differ in their ends, port and verdict; the others are parts of it.
	Judged     int64 `json:"judged"`
	Unaffected int64 `json:"unaffected"`
	Cut        int64 `json:"cut"`
	Opened     int64 `json:"opened"`
	CannotTell int64 `json:"cannotTell"`
	// Affected are those cut or opened, More how many of these are not named. Unseen are flows that
	// were not judged, because there are too many.
	Affected []FlowEffect `json:"affected"`
	More     int64        `json:"more,omitempty"`
	Unseen   int64        `json:"unseen,omitempty"`
}

// FlowEffect is what would become of one flow.
type FlowEffect struct {
	Effect   string  `json:"effect"`
	From     FlowEnd `json:"from"`
	To       FlowEnd `json:"to"`
	Protocol string  `json:"protocol"`
	Port     int32   `json:"port,omitempty"`
	// Seen is Allow, Drop or Reject.
	Seen        string           `json:"seen"`
	Connections int64            `json:"connections"`
	Last        metav1.MicroTime `json:"last"`
	By          EffectCause      `json:"by,omitzero"`
}

// EffectCause is what decides about a flow then.
type EffectCause struct {
	Rule       *Rule    `json:"rule,omitempty"`
	IsolatedBy []Policy `json:"isolatedBy,omitempty"`
}
