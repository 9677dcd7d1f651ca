package instance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Metadata is the instance metadata service.
type Metadata interface {
	// Get reads an entry below /latest/, such as meta-data/mac. The error of an
	// entry that the instance does not have is fs.ErrNotExist.
	Get(ctx context.Context, entry string) ([]byte, error)
}

// Identity holds fields of the instance identity document.
type Identity struct {
	InstanceID       string `json:"instanceId"`
	InstanceType     string `json:"instanceType"`
	Region           string `json:"region"`
	AvailabilityZone string `json:"availabilityZone"`
}

// ReadIdentity reads the instance identity document.
func ReadIdentity(ctx context.Context, service Metadata) (Identity, error) {
	const entry = "dynamic/instance-identity/document"
	var id Identity
	data, err := service.Get(ctx, entry)
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(data, &id); err != nil || id.InstanceID == "" || id.Region == "" || id.AvailabilityZone == "" {
		return id, unexpected(entry, data)
	}
	return id, nil
}

// ReadLine reads an entry that must be a single line.
func ReadLine(ctx context.Context, service Metadata, entry string) (string, error) {
	data, err := service.Get(ctx, entry)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if text == "" || strings.ContainsAny(text, "<>\r\n\x00") {
		return "", unexpected(entry, data)
	}
	return text, nil
}

func unexpected(entry string, data []byte) error {
	const most = 60
	return fmt.Errorf("asking the instance metadata service for %s: unexpected content %q: something else answers at the service's address", entry, data[:min(most, len(data))])
}
