package client

import (
	"bytes"
	"encoding/json"

	"rollcall/wire"
)

// frameBytes is how long a text frame may grow before the next one begins: half
// of what a server accepts.
const frameBytes = 32 << 10

// encodeFrames packs messages into text frames, each an array. A message is well
// below the limit of a frame: its largest part is data.
func encodeFrames(messages []wire.Message) (frames [][]byte) {
	var b []byte
	for i := range messages {
		if b = append(b, ','); len(b) == 1 {
			b[0] = '['
		}
		b = messages[i].Append(b)
		if last := i == len(messages)-1; last || len(b) > frameBytes || (i+1)%wire.MaxMessages == 0 {
			frames = append(frames, append(b, ']'))
			b = nil
		}
	}
	return frames
}

// mergeData is data after a patch of its top-level keys. Both are JSON objects.
func mergeData(data, patch json.RawMessage) (json.RawMessage, error) {
	if len(data) == 0 {
		return patch, nil
	}
	var merged map[string]json.RawMessage
	for _, part := range []json.RawMessage{data, patch} {
		if err := json.Unmarshal(part, &merged); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // data is counted in bytes, as it was written
	if err := encoder.Encode(merged); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
