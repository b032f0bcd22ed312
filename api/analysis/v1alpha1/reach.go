package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ReachReview asks which workloads can reach which others.
// +kubebuilder:object:root=true
type ReachReview struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ReachReviewSpec   `json:"spec"`
	Status ReachReviewStatus `json:"status,omitempty"`
}

// ReachReviewSpec is the question. Its texts are as people write them: see "nephele reach --help".
type ReachReviewSpec struct {
	// From and To are the endpoints: NAMESPACE/NAME, NAMESPACE/* or */* for all, NAMESPACE/SELECTOR
	// for those with labels (shop/app=db), node/NAME, cloud/NAME, an address, a range, or "any",
	// which an empty From means as well.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Protocol is TCP, UDP, SCTP, ICMP, ICMPv6 or a number; empty means all, with a port TCP.
	Protocol string `json:"protocol,omitempty"`
	// Port is a destination port, or a range of them (8000-8100).
	Port string `json:"port,omitempty"`
	// Refused adds what is dropped and rejected.
	Refused bool `json:"refused,omitempty"`
	// Limit is how many rows a page has, at most 5,000; 0 means 500. Page is which one, from 1; 0
	// means the first.
	Limit int32 `json:"limit,omitempty"`
	Page  int32 `json:"page,omitempty"`
	// Grouped answers with a Map in place of Flows: classes of machines that are alike, in which
	// Page has no meaning. An empty To means any. Of a set workloads alone are on it.
	Grouped bool `json:"grouped,omitempty"`
	// Members, the key of a class in a Map, answers with its Members in place of Flows, in pages.
	// The rest of the question has to be that of the Map.
	Members string `json:"members,omitempty"`
	// GroupBy answers with a Matrix in place of Flows, by groups: "machine", "namespace", "kind",
	// or the key of a label. FirstRow and FirstColumn are where the part of it begins that is
	// wanted, from 0; Rows and Columns are how large it is, at most 200 each, and 0 means 60. An
	// empty To means any.
	GroupBy     string `json:"groupBy,omitempty"`
	FirstRow    int32  `json:"firstRow,omitempty"`
	FirstColumn int32  `json:"firstColumn,omitempty"`
	Rows        int32  `json:"rows,omitempty"`
	Columns     int32  `json:"columns,omitempty"`
	// Row and Column, names of groups of the Matrix, answer with the Flows from the one to the
	// other.
	Row    string `json:"row,omitempty"`
	Column string `json:"column,omitempty"`
	// Ends is how many endpoints each side of Flows names at most; 0 means all.
	Ends int32 `json:"ends,omitempty"`
}

// ReachReviewStatus is the answer.
type ReachReviewStatus struct {
	Seen `json:",inline"`

	// Total is the number of rows on all pages, or of members.
	Total int32      `json:"total"`
	Flows []ReachRow `json:"flows"`
	// Map is there if it was asked for, and Members are the members of a class.
	Map     *ReachMap  `json:"map,omitempty"`
	Members []ReachEnd `json:"members,omitempty"`
	// Matrix is there if it was asked for.
	Matrix *ReachMatrix `json:"matrix,omitempty"`
}

// ReachMatrix is a part of a table of which groups reach which others. Where nothing goes from one
// to the other, there is no cell.
type ReachMatrix struct {
	Rows    []MatrixGroup `json:"rows"`
	Columns []MatrixGroup `json:"columns"`
	Cells   []MatrixCell  `json:"cells"`
	// TotalRows and TotalColumns are how many there are in the whole table.
	TotalRows    int32 `json:"totalRows"`
	TotalColumns int32 `json:"totalColumns"`
}

// MatrixGroup is a group of endpoints: "outside" has the unknown ones, "(not visible)" those that
// the caller may not see, "(none)" and "(without)" those that lack what is grouped by.
type MatrixGroup struct {
	Name string `json:"name"`
	// Count is how many endpoints are in it, 0 for addresses.
	Count int32 `json:"count"`
	// End is the endpoint, if there is one only.
	End *ReachEnd `json:"end,omitempty"`
}

// MatrixCell is what goes from one group to another.
type MatrixCell struct {
	// Row and Column are places in Rows and Columns.
	Row    int32 `json:"row"`
	Column int32 `json:"column"`
	// Verdict is the strongest there is of Allow, Native, Unknown, Reject and Drop, Text what has
	// it, and Mixed tells that there are others beside it.
	Verdict string `json:"verdict"`
	Text    string `json:"text"`
	Mixed   bool   `json:"mixed,omitempty"`
}

// ReachRow is traffic that is treated alike.
type ReachRow struct {
	From ReachSide `json:"from"`
	To   ReachSide `json:"to"`
	// Traffic is Ranges in the words of people. With Except it is all but these.
	Traffic string       `json:"traffic"`
	Except  bool         `json:"except,omitempty"`
	Ranges  []ReachRange `json:"ranges,omitempty"`
	// Verdict is Allow, Native, Unknown, Drop or Reject.
	Verdict string        `json:"verdict"`
	Egress  ReachDecision `json:"egress"`
	Ingress ReachDecision `json:"ingress"`
	// NoPeering tells that the ends are in networks without a peering that is known.
	NoPeering bool `json:"noPeering,omitempty"`
}

// ReachSide is one end of a row.
type ReachSide struct {
	Endpoints []ReachEnd `json:"endpoints,omitempty"`
	Addresses []string   `json:"addresses,omitempty"`
	// AddressesText says in words which addresses these are: "anywhere else except 10.1.0.5". What
	// is too much to be named is counted.
	AddressesText string `json:"addressesText,omitempty"`
	// Rest tells that Addresses are without those that other rows are about.
	Rest bool `json:"rest,omitempty"`
	// More is how many endpoints are meant besides those that are named, where not all were asked
	// for.
	More int32 `json:"more,omitempty"`
}

// ReachEnd is one of the endpoints.
type ReachEnd struct {
	Name      string `json:"name"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Object    string `json:"object,omitempty"`
	Interface string `json:"interface,omitempty"`
	// Addresses are single ones, and blocks that a cloud has delegated to the interface.
	Addresses []string `json:"addresses"`
	// Public tells that these are the public addresses of a machine that has private ones as well.
	Public bool `json:"public,omitempty"`
	// Partly tells that only these of its addresses are meant.
	Partly bool `json:"partly,omitempty"`
}

// ReachRange is a range of ports; of ICMP type*256+code.
type ReachRange struct {
	Protocol int32 `json:"protocol"`
	From     int32 `json:"from"`
	To       int32 `json:"to"`
}

// ReachDecision is what one end decides, and why.
type ReachDecision struct {
	Outcome  string `json:"outcome"`
	Rule     *Rule  `json:"rule,omitempty"`
	Passed   []Rule `json:"passed,omitempty"`
	Isolated bool   `json:"isolated,omitempty"`
	// Failsafe is the account, and HostFailsafe the host, whose failsafe flows allow it.
	Failsafe     string `json:"failsafe,omitempty"`
	HostFailsafe string `json:"hostFailsafe,omitempty"`
	// Groups tells that the machine's own security groups decide.
	Groups bool `json:"groups,omitempty"`
}
