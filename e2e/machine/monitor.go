package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
)

// answer is a message of qemu's monitor: the answer to a command, or an event.
type answer struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Description string `json:"desc"`
	} `json:"error"`
}

// execute runs one command in the monitor of a virtual machine
// (https://www.qemu.org/docs/master/interop/qmp-spec.html).
func execute(ctx context.Context, socket, command string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("connecting to qemu's monitor: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	decoder, encoder := json.NewDecoder(conn), json.NewEncoder(conn)
	var greeting map[string]any
	if err := decoder.Decode(&greeting); err != nil {
		return fmt.Errorf("reading the greeting of qemu's monitor: %w", errors.Join(context.Cause(ctx), err))
	}
	for _, name := range []string{"qmp_capabilities", command} {
		if err := encoder.Encode(map[string]string{"execute": name}); err != nil {
			return fmt.Errorf("telling qemu %s: %w", name, errors.Join(context.Cause(ctx), err))
		}
		if err := await(decoder); err != nil {
			return fmt.Errorf("telling qemu %s: %w", name, errors.Join(context.Cause(ctx), err))
		}
	}
	return nil
}

// await reads up to the answer; events may come before it.
func await(decoder *json.Decoder) error {
	for {
		var message answer
		if err := decoder.Decode(&message); err != nil {
			return err
		}
		switch {
		case message.Error != nil:
			return errors.New(message.Error.Description)
		case message.Return != nil:
			return nil
		}
	}
}
