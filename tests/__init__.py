"""Tests of Ragdoll; a package, so that no other distribution's `tests` can stand in the way of `tests.helpers`."""
