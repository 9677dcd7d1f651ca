// Package firstboot boots instances from a captured image, with user data of
// either contract and a metadata service for each instance. It checks the
// result of the boot units with a real systemd, cloud-init, containerd and
// kubelet. Package join tests whether a cluster accepts such nodes.
package firstboot
