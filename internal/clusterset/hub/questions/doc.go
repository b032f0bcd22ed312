// Package questions answers questions about flows between clusters of a set.
//
// It owns how a question is divided: which cluster is asked what, and what the answers come to. It
// promises:
//
//   - Each cluster is asked only about its own end of a flow, and all of one question at once.
//   - What is not known is told, with the cluster and the reason. It is never left out.
//   - A question that names what there is not, or means too many, is a WrongQuestion. Nobody is
//     asked then.
//
// It keeps nothing. All functions may be called from anywhere. A View counts only during the call
// of Look that gave it.
package questions
