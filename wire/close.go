package wire

// CloseCode is the status code of a WebSocket close frame.
type CloseCode uint16

// Codes of the RFC.
const (
	CloseNormal    CloseCode = 1000
	CloseGoingAway CloseCode = 1001
	CloseProtocol  CloseCode = 1002 // frames that break RFC 6455
	CloseInvalid   CloseCode = 1007 // a text frame that is not UTF-8
	CloseTooBig    CloseCode = 1009 // a message over the limit of a frame
)

// Codes of the protocol. 44xx: do not come back as you are. 45xx: come back, with
// jitter.
const (
	CloseBadMessage CloseCode = 4400
	CloseToken      CloseCode = 4401
	CloseForbidden  CloseCode = 4403
	CloseReplaced   CloseCode = 4409
	CloseOversized  CloseCode = 4413
	CloseInternal   CloseCode = 4500
	CloseDraining   CloseCode = 4503
	CloseExpired    CloseCode = 4504
	CloseSlow       CloseCode = 4508
	CloseTooMany    CloseCode = 4529
)

// Return reports whether a client that was closed with this code may come back as
// it is: always, but after 44xx and after the errors that its own frames were.
func (c CloseCode) Return() bool {
	switch c {
	case CloseProtocol, CloseInvalid, CloseTooBig:
		return false
	}
	return c < 4400 || c > 4499
}
