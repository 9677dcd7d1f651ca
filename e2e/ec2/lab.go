package ec2

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/textproto"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// Lab makes the instances' machines in a lab of package machine.
type Lab struct {
	*machine.Lab
	Kind machine.Kind // machine.Nspawn when empty
}

// Launch implements Machines.
func (l Lab) Launch(ctx context.Context, launch Launch) (Machine, error) {
	data, err := instanceData(launch)
	if err != nil {
		return nil, err
	}
	config := machine.Config{
		Kind: l.Kind, Root: launch.Disk.Root, Image: launch.Disk.Image,
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

// instanceData is the instance's user data behind a part of the double's own:
// a real AMI has its default user in its own configuration, but the systems
// behind the double's are all the same, and told which user to make
// (https://cloudinit.readthedocs.io/en/22.4.2/topics/format.html).
func instanceData(launch Launch) ([]byte, error) {
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
		// cloud-init looks at the content of a text/plain part for its type.
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
