// Package event reads what AWS tells of changes by EventBridge, and knows which of these changes
// are our own.
//
// It owns which events say something about a snapshot. It promises that an event, which any writer
// to the queue may forge, is no more than a hint: it can only cause a reading, and its words are
// only ever shown. It calls nothing. Methods of Own are safe for concurrent use.
package event
