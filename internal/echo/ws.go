package echo

import (
	"io"
	"net/http"

	"golang.org/x/net/websocket"
)

// webSocket says who answers in a first message, then sends every message back.
func webSocket(who Identity) http.Handler {
	return websocket.Server{Handler: func(c *websocket.Conn) { // without a Handshake any Origin is welcome, none too
		if websocket.Message.Send(c, who.Line(c.Request().RemoteAddr)) != nil {
			return
		}
		for {
			var msg message
			if frames.Receive(c, &msg) != nil || frames.Send(c, msg) != nil {
				return
			}
		}
	}}
}

// message is a WebSocket message with its kind, text or binary.
type message struct {
	kind byte
	data []byte
}

var frames = websocket.Codec{
	Marshal: func(v any) ([]byte, byte, error) {
		m := v.(message)
		return m.data, m.kind, nil
	},
	Unmarshal: func(data []byte, kind byte, v any) error {
		*v.(*message) = message{kind, data}
		return nil
	},
}

// talk sends a text over WebSocket and writes the server's identity and what comes back.
func talk(c *websocket.Conn, text string, out io.Writer) error {
	defer c.Close()
	for i := range 2 {
		if i == 1 {
			if err := websocket.Message.Send(c, text); err != nil {
				return err
			}
		}
		var got string
		if err := websocket.Message.Receive(c, &got); err != nil {
			return err
		}
		if _, err := io.WriteString(out, got+"\n"); err != nil {
			return err
		}
	}
	return nil
}
