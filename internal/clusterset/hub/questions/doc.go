// Package questions answers questions about flows between clusters of a set.
//
// It owns how a question is divided among clusters, and how their answers are combined. It
// promises:
//
//   - Each cluster is asked only about its own end of a flow, and all of one question at once.
//   - The answer names what is unknown, with the cluster and the reason. It is never left out.
//   - A question that names something that does not exist, or too many workloads, is a
//     WrongQuestion. No cluster is asked then.
//
// It keeps nothing. All functions may be called from anywhere. A View counts only during the call
// of Look that gave it.
package questions
