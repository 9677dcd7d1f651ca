package imds

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Identity is what the instance identity document says.
type Identity struct {
	InstanceID       string `json:"instanceId"`
	InstanceType     string `json:"instanceType"`
	Region           string `json:"region"`
	AvailabilityZone string `json:"availabilityZone"`
	Architecture     string `json:"architecture"`
	ImageID          string `json:"imageId"`
	AccountID        string `json:"accountId"`
}

// Identity reads the instance identity document.
func (c *Client) Identity(ctx context.Context) (Identity, error) {
	const entry = "dynamic/instance-identity/document"
	var id Identity
	data, err := c.Get(ctx, entry)
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(data, &id); err != nil || id.InstanceID == "" || id.Region == "" || id.AvailabilityZone == "" {
		return id, fmt.Errorf("asking the instance metadata service for %s: %w", entry, unexpected(data))
	}
	return id, nil
}

// Credentials are those of the instance's role.
type Credentials struct {
	AccessKeyID     string    `json:"AccessKeyId"`
	SecretAccessKey string    `json:"SecretAccessKey"`
	Token           string    `json:"Token"`
	Expiration      time.Time `json:"Expiration"`
	Code            string    `json:"Code"`
	Message         string    `json:"Message"`
}

// Credentials reads the credentials of the instance's role. They appear some
// seconds after the instance starts, so a missing entry is asked for again.
func (c *Client) Credentials(ctx context.Context) (Credentials, error) {
	const entry = "meta-data/iam/security-credentials/"
	var creds Credentials
	err := c.retry(ctx, func(ctx context.Context) (err error) {
		creds, err = c.roleCredentials(ctx, entry)
		return err
	})
	if err != nil {
		return Credentials{}, fmt.Errorf("getting the instance role's credentials: %w; the instance needs an instance profile with the node's role", err)
	}
	return creds, nil
}

func (c *Client) roleCredentials(ctx context.Context, entry string) (creds Credentials, err error) {
	data, err := c.once(ctx, entry)
	if err != nil {
		return creds, patient{err}
	}
	role, err := line(data)
	if err != nil {
		return creds, final{err}
	}
	if data, err = c.once(ctx, entry+role); err != nil {
		return creds, patient{err}
	}
	if err := json.Unmarshal(data, &creds); err != nil {
		return creds, final{unexpected(data)}
	}
	if creds.Code != "Success" && creds.Code != "" || creds.AccessKeyID == "" || creds.SecretAccessKey == "" {
		return creds, fmt.Errorf("the role %s has none yet: %s %s", role, creds.Code, creds.Message)
	}
	return creds, nil
}

// patient hides that an entry is missing: it may appear.
type patient struct{ error }
