# Turns any machine with SSH into an EKS node image:
#
#   packer init .
#   packer build -var host=192.0.2.7 -var user=admin -var private_key=~/.ssh/id_ed25519 .
#
# Nobody can log in to the machine afterwards: shut it down and capture its disk.
# For AMIs, use the same two provisioners, as in ../amazon-ebs.

packer {
  required_plugins {
    eksnode = {
      source  = "github.com/eksnode/eksnode"
      version = ">= 0.1.0"
    }
  }
}

variable "host" {
  description = "Address of the machine"
  type        = string
}

variable "port" {
  description = "Port of its SSH server"
  type        = number
  default     = 22
}

variable "user" {
  description = "User for SSH: root, or a user with sudo without a password"
  type        = string
}

variable "private_key" {
  description = "File with the user's private key"
  type        = string
}

variable "kubernetes_version" {
  description = "Kubelet version"
  type        = string
  default     = "1.36.3"
}

variable "versions" {
  description = "Versions of single assets, by the asset's name (default: those that go with the kubelet)"
  type        = map(string)
  default     = {}
}

variable "source_url" {
  description = "Mirror of the upstream sites (default: the sites themselves)"
  type        = string
  default     = ""
}

variable "allow_http" {
  description = "Accept a mirror with http:// without a lock file or checksums"
  type        = bool
  default     = false
}

variable "reports" {
  description = "Folder for the reports"
  type        = string
  default     = "reports"
}

source "null" "machine" {
  ssh_host             = var.host
  ssh_port             = var.port
  ssh_username         = var.user
  ssh_private_key_file = var.private_key
}

build {
  sources = ["source.null.machine"]

  provisioner "eksnode" {
    kubernetes_version = var.kubernetes_version
    versions           = var.versions
    source_url         = var.source_url
    allow_http         = var.allow_http
    report             = "${var.reports}/provision.json"
  }

  # Must be the last provisioner: what runs after a scrub is in the image again.
  provisioner "eksnode-scrub" {
    report = "${var.reports}/scrub.json"
  }
}
