# Makes an EKS node image out of any machine that answers to SSH. It is what
# `make image` builds, and it works on a machine of your own:
#
#   packer init .
#   packer build -var host=192.0.2.7 -var user=admin -var private_key=~/.ssh/id_ed25519 .
#
# The machine is not a machine any more afterwards: shut it down and capture its
# disk. Amazon images are made by the same two blocks in ../amazon-ebs.

packer {
  required_plugins {
    eksnode = {
      source  = "github.com/eksnode/eksnode"
      version = ">= 0.1.0"
    }
  }
}

variable "host" {
  description = "The machine's address."
  type        = string
}

variable "port" {
  description = "The port of its SSH server."
  type        = number
  default     = 22
}

variable "user" {
  description = "Who logs in: root, or somebody whom sudo asks for no password."
  type        = string
}

variable "private_key" {
  description = "The file with that user's private key."
  type        = string
}

variable "kubernetes_version" {
  description = "The kubelet's version."
  type        = string
  default     = "1.34.4"
}

variable "versions" {
  description = "Versions of single assets, where another than the usual one is wanted."
  type        = map(string)
  default     = {}
}

variable "source_url" {
  description = "A mirror of the upstream sites; empty means the sites themselves."
  type        = string
  default     = ""
}

variable "reports" {
  description = "The folder for the reports."
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
    report             = "${var.reports}/provision.json"
  }

  # Last of all: what comes after a scrub is in the image again.
  provisioner "eksnode-scrub" {
    report = "${var.reports}/scrub.json"
  }
}
