// Package errtext says in a status what is wrong.
//
// It owns nothing. It promises an empty text if nothing is wrong. Its function may be called from
// anywhere.
package errtext

// Of is what an error says; empty for nil.
func Of(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
