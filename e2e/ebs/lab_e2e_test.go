//go:build e2e

package ebs_test

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/textproto"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// machines starts the instances' machines in a lab.
type machines struct{ *machine.Lab }

// Launch implements aws.Machines.
func (l machines) Launch(ctx context.Context, launch aws.Launch) (aws.Machine, error) {
	data, err := instanceData(launch)
	if err != nil {
		return nil, err
	}
	config := machine.Config{
		Root: launch.Disk.Root, Image: launch.Disk.Image,
		InstanceID: launch.InstanceID, User: launch.User, UserData: data,
	}
	if launch.AuthorizedKey != "" {
		config.AuthorizedKeys = []string{launch.AuthorizedKey}
	}
	started, err := l.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	return started, nil
}

// instanceData returns the instance's user data after a part that sets the
// default user. A real AMI configures its default user itself, but all base
// systems of the tests are the same and need the user's name
// (https://cloudinit.readthedocs.io/en/22.4.2/topics/format.html).
func instanceData(launch aws.Launch) ([]byte, error) {
	var data bytes.Buffer
	parts := multipart.NewWriter(&data)
	fmt.Fprintf(&data, "Content-Type: multipart/mixed; boundary=%q\nMIME-Version: 1.0\n\n", parts.Boundary())
	write := func(contentType string, content []byte) error {
		part, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {contentType}})
		if err == nil {
			_, err = part.Write(content)
		}
		return err
	}
	err := write("text/cloud-config", fmt.Appendf(nil, "#cloud-config\nuser: %s\n", launch.User))
	if err == nil && len(launch.UserData) > 0 {
		// cloud-init detects the type of a text/plain part by its content.
		err = write("text/plain", launch.UserData)
	}
	if err == nil {
		err = parts.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("writing the instance data: %w", err)
	}
	return data.Bytes(), nil
}
